"""Reading `reconcile.yaml`, and saying what is wrong with it."""

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reconciler.core.context import BASE
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.errors import ManifestError, ReconcilerError
from reconciler.core.model import unpack_span
from reconciler.core.nearest import did_you_mean
from reconciler.manifests.files import lies_in, veiled
from reconciler.manifests.reading.compose import Document, compose
from reconciler.manifests.reading.refusals import named
from reconciler.manifests.validation.problems import EXPECTED, describe, field_names, locate
from reconciler.project.settings.sections import ALLOWED, BROKEN_RECIPIENT, FILE_NAME, RESERVED, Settings


def read(file: Path) -> Settings:
    try:
        data = file.read_bytes() if file.is_file() else None
    except OSError as failure:
        raise ReconcilerError(f"cannot read {file}: {failure.strerror}") from failure
    try:
        return parse(data)
    except ManifestError as failure:
        if lies_in(file, file.parent):
            raise
        raise ManifestError(failure.message, list(map(veiled, failure.diagnostics))) from None


def parse(data: bytes | None) -> Settings:
    """The settings in `data`; the defaults for None, where there is no file."""
    composed = compose(data or b"", FILE_NAME)  # as all files in diagnostics, from the root
    if composed.diagnostics:
        raise ManifestError(f"{FILE_NAME} cannot be read", composed.diagnostics)
    if not composed.documents:
        return Settings()
    document, *others = composed.documents
    if others:
        span = unpack_span(FILE_NAME, others[0].spans[()])
        problem = error("bad-setting", "settings must be one document", span)
        raise ManifestError(f"{FILE_NAME} is not valid", [problem])
    try:
        return Settings.model_validate(document.value)
    except ValidationError as failure:
        found = [_explain(problem, document) for problem in failure.errors(include_url=False)]
        problems = list({problem.span: problem for problem in reversed(found)}.values())[::-1]
        raise ManifestError(f"{FILE_NAME} is not valid", problems) from None


def _explain(problem: Any, document: Document) -> Diagnostic:
    path, _ = locate(problem, document.value)
    setting = ".".join(map(str, path)) or FILE_NAME
    names_key = problem["loc"][-1:] == ("[key]",)
    kind, help, span = problem["type"], "", document.key_span(path) if names_key else document.span(path)
    if kind == RESERVED:
        message = f"an environment cannot be called `{BASE}`: that is the manifests without an overlay"
        return error("reserved-environment", message, span, help="give it another name")
    if kind == "extra_forbidden":
        span = document.key_span(path)
        message = f"there is no setting `{named(path)}`"
        if problem["input"] is None:  # {hunter2} may be a value that lacks its key
            message = f"there is no such setting in `{'.'.join(map(str, path[:-1])) or FILE_NAME}`"
        help = did_you_mean(str(path[-1]), field_names(Settings, problem["loc"][:-1]))
    elif kind in EXPECTED:
        message = f"`{setting}`: expected {EXPECTED[kind]}, found {describe(problem['input'], secret=True)}"
    elif kind == "literal_error":
        message = f"this is not allowed for `{setting}`"
        choices = re.findall("'([^']*)'", problem["ctx"]["expected"])
        help = did_you_mean(str(problem["input"]), choices) or f"one of {', '.join(choices)}"
    elif kind == BROKEN_RECIPIENT:
        message = f"`{setting}`: this is not a whole public recipient"
        help = "copy it again: age1… (62 characters), ssh-ed25519 … or ssh-rsa …"
    elif kind == "string_pattern_mismatch" and problem["ctx"]["pattern"] in ALLOWED:
        message = f"`{setting}`: expected {ALLOWED[problem['ctx']['pattern']]}"
    else:
        message = f"`{setting}`: {problem['msg'].lower()}"
    # The span is private: somebody may have written a token or a password there.
    return error("bad-setting", message, span, help=help or "see docs/settings.md")

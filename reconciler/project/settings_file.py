"""Reads `reconcile.yaml` and the environment variables that come before it, and explains mistakes in them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reconciler.core.context import BASE
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.errors import ManifestError, ReconcilerError
from reconciler.core.model import unpack_span
from reconciler.core.state_url import url_of_environment
from reconciler.core.words import did_you_mean
from reconciler.manifests.files import SETTINGS_FILE, lies_in, veiled
from reconciler.manifests.reading.compose import Document, compose
from reconciler.manifests.reading.refusals import named
from reconciler.manifests.validation.problems import EXPECTED, describe, field_names, locate
from reconciler.project.sections import (
    ALLOWED,
    BROKEN_RECIPIENT,
    EXTENDED,
    RESERVED,
    URL,
    SecretSource,
    Settings,
    known_capabilities,
)


def read_settings(file: Path) -> Settings:
    """The settings of a file; the defaults where there is none. Raises ManifestError and ReconcilerError."""
    try:
        data = file.read_bytes() if file.is_file() else None
    except OSError as failure:
        raise ReconcilerError(f"cannot read {file}: {failure.strerror}") from failure
    try:
        return parse_settings(data)
    except ManifestError as failure:
        if lies_in(file, file.parent):
            raise
        raise ManifestError(failure.message, list(map(veiled, failure.diagnostics))) from None


def parse_settings(data: bytes | None) -> Settings:
    """The settings in `data`; the defaults for None, where there is no file."""
    composed = compose(data or b"", SETTINGS_FILE)  # as all files in diagnostics, from the root
    if composed.diagnostics:
        raise ManifestError(f"{SETTINGS_FILE} cannot be read", composed.diagnostics)
    if not composed.documents:
        return Settings()
    document, *others = composed.documents
    if others:
        span = unpack_span(SETTINGS_FILE, others[0].spans[()])
        problem = error("bad-setting", "settings must be one document", span)
        raise ManifestError(f"{SETTINGS_FILE} is not valid", [problem])
    try:
        return Settings.model_validate(document.value)
    except ValidationError as failure:
        found = [_explain(problem, document) for problem in failure.errors(include_url=False)]
        problems = list({problem.span: problem for problem in reversed(found)}.values())[::-1]
        raise ManifestError(f"{SETTINGS_FILE} is not valid", problems) from None


def _explain(problem: Any, document: Document) -> Diagnostic:
    """The diagnostic for an error that pydantic found."""
    path, _ = locate(problem, document.value)
    setting = ".".join(map(str, path)) or SETTINGS_FILE
    names_key = problem["loc"][-1:] == ("[key]",)
    kind, help, span = problem["type"], "", document.key_span(path) if names_key else document.span(path)
    if kind == RESERVED:
        message = f"an environment cannot be called `{BASE}`: that is the manifests without an overlay"
        return error("reserved-environment", message, span, help="give it another name")
    if kind == "extra_forbidden":
        span = document.key_span(path)
        message = f"there is no setting `{named(path)}`"
        if problem["input"] is None:  # {hunter2} may be a value that lacks its key
            message = f"there is no such setting in `{'.'.join(map(str, path[:-1])) or SETTINGS_FILE}`"
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


def with_variables(settings: Settings, env: Mapping[str, str], environment: str) -> Settings:
    """`settings` with the values of the environment variables that come before it."""
    platform, execution = settings.platform, settings.execution
    if env.get("RECONCILE_BASE_URL"):
        if not re.match(URL, env["RECONCILE_BASE_URL"]):
            raise ReconcilerError(f"RECONCILE_BASE_URL: expected {ALLOWED[URL]}")
        platform = platform.model_copy(update={"base_url": env["RECONCILE_BASE_URL"]})
    if env.get("RECONCILE_CAPABILITIES"):
        names = [name.strip() for name in env["RECONCILE_CAPABILITIES"].split(",") if name.strip()]
        unknown = sorted(set(names) - known_capabilities() - {EXTENDED})
        if unknown:
            raise ReconcilerError(
                f"RECONCILE_CAPABILITIES names unknown capabilities: {', '.join(unknown)}",
                help=did_you_mean(unknown[0], [EXTENDED, *known_capabilities()])
                or f"known are: extended, {', '.join(sorted(known_capabilities()))}",
            )
        platform = platform.model_copy(update={"capabilities": names})
    if env.get("RECONCILE_RATE_LIMIT_LOOPBACK"):
        limited = env["RECONCILE_RATE_LIMIT_LOOPBACK"] != "0"
        platform = platform.model_copy(update={"rate_limit_loopback": limited})
    if env.get("RECONCILE_SETTLE_S"):
        try:
            settle_s = float(env["RECONCILE_SETTLE_S"])
        except ValueError:
            settle_s = -1.0
        if not 0 <= settle_s < float("inf"):
            found = env["RECONCILE_SETTLE_S"]
            raise ReconcilerError(f"RECONCILE_SETTLE_S must be a number of seconds, not `{found}`")
        execution = execution.model_copy(update={"settle_s": settle_s})
    state = settings.state
    if env.get("RECONCILE_STATE"):
        state = state.model_copy(update={"url": url_of_environment(env["RECONCILE_STATE"], environment)})
    return settings.model_copy(update={"platform": platform, "execution": execution, "state": state})


def credentials(settings: Settings) -> frozenset[str]:
    """The variables with a token of any environment, an age identity, or a secret of hooks."""
    platforms = [settings.platform, *(section.platform for section in settings.environments.values())]
    states = [settings.state, *(section.state for section in settings.environments.values())]
    identities = [settings.secrets.age_identity_from, *(section.identity_from for section in states)]
    notified = (source for section in settings.notify for source in (section.url_from, section.secret_from))
    hooks = settings.controller.hooks.git.values()
    named = (source.env for source in (*identities, *notified, *hooks) if source is not None)
    return frozenset(filter(None, (*named, *(platform.token_from.env for platform in platforms))))


def secret_variables(settings: Settings) -> frozenset[str]:
    """The variables that the file names as holding a secret of ours."""
    sources: list[SecretSource | None] = []
    for provider in settings.providers.values():
        signing = provider.signing_secret_from
        sources += signing if isinstance(signing, list) else [signing]
        sources += [provider.webhook_secret_from, provider.client_secret_from]
    named = frozenset(source.env for source in sources if source is not None and source.env is not None)
    return named | credentials(settings)

"""A guardrail as a value: it is compared, remembered by the state, and shown, wherever it was read.

The files of guardrails are found and read in the working tree, or at a git revision.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pydantic import ValidationError

from reconciler.core.advice import Command, command
from reconciler.core.diagnostics import Diagnostic, has_errors
from reconciler.core.errors import ManifestError, ReconcilerError

if TYPE_CHECKING:  # a project without guardrails imports nothing for them
    from reconciler.manifests.load import Loaded, Reader
    from reconciler.manifests.revisions.revision import Revision


class Limit(Struct, frozen=True):
    """One document of a guardrail file. `written`: its `spec` as JSON. `place`: where it stands, in words."""

    kind: str
    name: str
    written: str
    place: str = "the state, from an earlier run"

    @property
    def spec(self) -> Any:
        """The validated spec."""
        return _spec(self.kind, self.written)

    def covers(self, other: object) -> bool:
        """Whether this one allows nothing that `other` refuses, whatever they are called."""
        if not isinstance(other, Limit) or other.kind != self.kind:
            return False
        return self.written == other.written or bool(self.spec.covers(other.spec))

    def to_json(self) -> Mapping[str, Any]:
        """What the state remembers. An older version takes it for an approval rule that it does not know."""
        return {"guardrail": {"kind": self.kind, "name": self.name, "spec": json.loads(self.written)}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Limit":
        """Raises ReconcilerError for what a newer version wrote."""
        try:
            found = cls(data["kind"], data["name"], json.dumps(data["spec"]))
            _ = found.spec
        except (KeyError, TypeError, ValidationError):
            raise ReconcilerError(
                "the state remembers a guardrail that this version does not know",
                help="use the version that wrote it, or a newer one",
            ) from None
        return found

    @property
    def terms(self) -> str:
        return f"in {self.place}"

    @property
    def described(self) -> str:
        """It, as a sentence names it."""
        return f"`{self}`"

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def how_to_sign(name: str, *, signed: bool) -> tuple[str, tuple[Command, ...]]:
    """How people let pass what a guardrail finds: a text, and its commands. `name`: what they override."""
    if signed:
        return "an approval overrides it", ()
    advice = (
        command("plan", "--out", "FILE"),
        command("approve", "FILE", "--override", name, "--reason", "TEXT"),
        command("apply", "--plan", "FILE", "--approval", "FILE.NAME.approval"),
    )
    return f"people may let it pass: `{'`, `'.join(map(str, advice))}`", advice


@cache
def _spec(kind: str, written: str) -> Any:
    from reconciler.guardrails.kinds import find_guardrails  # few projects have any

    return find_guardrails()[kind].Spec.model_validate_json(written)


CASE = ".case.yaml"


def read_limits(
    patterns: Sequence[str], root: Path, at: "Revision | None" = None
) -> tuple[Sequence[Limit], Sequence[Diagnostic]]:
    """The guardrails in files that match `patterns`, which are relative to `root`, and the files' problems.

    `at`: the revision to read them at, instead of the working tree.
    """
    folders = list(dict.fromkeys(_folder(pattern) for pattern in patterns))
    there = [name for name in folders if (at.holds(name) if at else os.path.lexists(root / name))]
    if not there:
        return (), ()
    loaded = _load(patterns, there, root, at)
    return [
        Limit(
            resource.address.kind,
            resource.address.name,
            resource.spec.model_dump_json(by_alias=True, exclude_unset=True),
            span.place if (span := resource.span("metadata", "name")) is not None else resource.file,
        )
        for resource in (*loaded.resources, *loaded.policies)
    ], loaded.diagnostics


def require_limits(patterns: Sequence[str], root: Path, at: "Revision | None" = None) -> Sequence[Limit]:
    """As `read_limits`. Raises ManifestError where a file has an error."""
    limits, problems = read_limits(patterns, root, at)
    if has_errors(problems):
        where = f" at {at.ref}" if at is not None else ""
        raise ManifestError(f"the guardrails{where} have errors; nothing was changed", list(problems))
    return limits


def holds_guardrails(patterns: Sequence[str], file: str) -> bool:
    """Whether `file`, relative to the project's root, is one of theirs."""
    matches = any(fnmatchcase(file, pattern) for pattern in patterns)
    return matches and not file.endswith(CASE)  # a case of `policy test` may stand beside them


def _folder(pattern: str) -> str:
    """The part of a pattern without signs: a file, or a folder that is searched."""
    return "/".join(takewhile(lambda part: not set(part) & set("*?["), pattern.split("/"))) or "."


def without_guardrails(patterns: Sequence[str], read: "Reader") -> "Reader":
    """`read`, without the files of guardrails: a project may keep its manifests in the root."""
    begins = tuple("" if (folder := _folder(pattern)) == "." else folder for pattern in patterns)
    return _only(read, lambda name: not (name.startswith(begins) and holds_guardrails(patterns, name)))


def _load(patterns: Sequence[str], folders: Sequence[str], root: Path, at: "Revision | None") -> "Loaded":
    from reconciler.guardrails.kinds import find_guardrails
    from reconciler.manifests.files import read_files
    from reconciler.manifests.load import load

    read = at.read_files if at is not None else partial(read_files, within=root)
    matching = _only(read, partial(holds_guardrails, patterns))
    paths = [os.path.relpath(root / folder) for folder in folders]
    return load(paths, root=root, kinds=find_guardrails(), read=matching, apart="")


def _only(read: "Reader", wanted: Callable[[str], bool]) -> "Reader":
    """`read`, of the files whose names are `wanted`."""

    def reader(
        paths: Sequence[str],
        root: Path,
        stdin: Callable[[], bytes] | None,
        problems: list[Diagnostic],
        apart: str,
    ) -> Iterator[tuple[str, bytes]]:
        """As `read_files`."""
        return ((name, data) for name, data in read(paths, root, stdin, problems, apart) if wanted(name))

    return reader

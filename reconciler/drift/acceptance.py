"""The result of `drift --accept`: values that were accepted or refused, as JSON and as text."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from reconciler.core.advice import NO_OPTIONS, RunOptions, command
from reconciler.core.diagnostics import Diagnostic, Span, warning
from reconciler.core.model import Address, Change, Path, Resource, StateRecord
from reconciler.core.steps import Plan
from reconciler.core.words import counted
from reconciler.manifests.writing.write import scalar
from reconciler.reports.escape import in_json, page_text
from reconciler.reports.fragments import DiagnosticJson, position


class Accepted(Struct, frozen=True):
    """One value that was accepted: `before` in the manifest, `after` on the platform.

    `span`: where it was written; None for an object without a manifest, whose record takes the value.
    """

    address: Address
    path: str
    span: Span | None
    before: Any
    after: Any


class Refusal(Struct, frozen=True):
    """One value that cannot be written. `why` says where a person can edit it."""

    address: Address
    path: str
    why: Diagnostic


class Acceptance(Struct, frozen=True):
    """The outcome of accepting drift. With one refusal, nothing was written.

    `remaining`: changes that still are drift. `others`: addresses that could be accepted without the refused
    ones. `quiet`: named addresses that have not drifted. `remarks`: notes about written values. `records`:
    new records of objects without a manifest, for `keep_records` to store.
    """

    accepted: Sequence[Accepted]
    refused: Sequence[Refusal]
    remaining: Sequence[Change]
    others: Sequence[Address] = ()
    quiet: Sequence[Address] = ()
    remarks: Sequence[Diagnostic] = ()
    records: Sequence[StateRecord] = ()

    def shown_in(self, plan: Plan) -> Plan:
        """`plan` with the refusals and remarks, without diagnostics at values that were replaced."""
        replaced = {_start(accepted.span) for accepted in self.accepted if accepted.span is not None}
        remaining = [
            problem
            for problem in plan.diagnostics
            if problem.span is None or _start(problem.span) not in replaced
        ]
        refusals = dict.fromkeys(refusal.why for refusal in self.refused)
        return replace(plan, diagnostics=(*remaining, *refusals, *self.remarks))


def _start(span: Span) -> tuple[str, int, int]:
    return span.file, span.line, span.column


# --- manifests that several environments share ---


class Environments(Struct, frozen=True):
    """`chosen`: the environment that drifted, "" for none. `folder`: of all overlays, from the root."""

    chosen: str
    folder: str

    def shared(self, file: str) -> bool:
        """Whether the manifests in `file` count in other environments, too."""
        return not (self.chosen and file.startswith(f"{self.folder}/{self.chosen}/"))


def patch(resource: Resource, path: Path, value: Any) -> str:
    """The entry of an overlay, on one line, that gives `value` at `path` to this resource alone."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else scalar(value)
    for part in reversed(path):
        text = f"{{{part}: {text}}}"
    return f"{resource.in_file}: {text}"


def shared_values(
    accepted: Sequence[Accepted], resources: Mapping[Address, Resource], environments: Environments
) -> Iterator[Diagnostic]:
    """Warn of each value that was written where it counts for other environments, too."""
    own = f"{environments.folder}/{environments.chosen or 'NAME'}"
    alone = f"`{environments.chosen}`" if environments.chosen else "one environment"
    for value in accepted:
        if value.span is not None and environments.shared(value.span.file):
            before, after = scalar(value.before), scalar(value.after)
            entry = patch(resources[value.address], ("spec", value.path), value.after)
            yield warning(
                "shared-value",
                f"`{value.address}`: `{value.path}: {after}` now counts in every environment that "
                "does not patch it, with its next apply",
                value.span,
                help=f"to limit it to {alone}, write {before} here again, and `{entry}` into {own}",
            )


# --- as JSON and as text ---


def acceptance_document(acceptance: Acceptance) -> dict[str, Any]:
    """`accepted: [{address, path, file, line, column, before, after}]`; `refused`: as diagnostics."""
    return {
        "accepted": [
            _named(value) | position(value.span) | {"before": value.before, "after": value.after}
            for value in acceptance.accepted
        ],
        "refused": [
            _named(refusal) | to_builtins(DiagnosticJson.of(refusal.why)) for refusal in acceptance.refused
        ],
    }


def _named(value: Accepted | Refusal) -> dict[str, Any]:
    return {"address": str(value.address), "path": value.path}


def render_acceptance(acceptance: Acceptance, paths: Sequence[str] = (), run: RunOptions = NO_OPTIONS) -> str:
    """The lines for people. `paths`: those of the command, for advice about the same manifests."""
    return page_text(_lines(acceptance, paths, run))


def _lines(acceptance: Acceptance, paths: Sequence[str], run: RunOptions) -> Iterator[str]:
    for address in acceptance.quiet:
        yield f"{address} has no drift to accept."
    if acceptance.refused:
        refused = _listed({refusal.address for refusal in acceptance.refused})
        yield f"Not accepted: {refused}; no file was changed."
        if acceptance.others:
            alone = command("drift", "--accept", *map(_no_option, paths), *acceptance.others)
            yield f"The others alone: {alone.with_options(run)}"
        return
    for value in acceptance.accepted:
        where = value.span.place if value.span is not None else value.address
        yield f"  {where}: {value.path}: {in_json(value.before)} -> {in_json(value.after)}"
    files = len({value.span.file for value in acceptance.accepted if value.span is not None})
    if acceptance.accepted:
        objects = len({value.address for value in acceptance.accepted})
        places = [counted(files, "file")] if files else []
        places += ["the state"] if acceptance.records else []
        remaining = len(acceptance.remaining)
        still = f"{remaining} still drifting." if remaining else "nothing drifts any more."
        yield f"Accepted: {counted(objects, 'object')} in {' and '.join(places)}; {still}"
    elif not acceptance.quiet:
        yield "Nothing to accept."


def _no_option(path: str) -> str:
    """`path` in a form that no command takes for an option."""
    return f"./{path}" if path.startswith("-") and path != "-" else path


def _listed(addresses: Collection[Address]) -> str:
    return ", ".join(sorted(map(str, addresses)))

"""What became of accepting drift, as text and JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import to_builtins

from reconciler.core.advice import NO_OPTIONS, RunOptions, command
from reconciler.core.model import Address
from reconciler.core.words import counted
from reconciler.drift.acceptance import Acceptance, Accepted, Refusal
from reconciler.reports.escape import in_json, page_text
from reconciler.reports.fragments import DiagnosticJson, position


def acceptance_document(acceptance: Acceptance) -> dict[str, Any]:
    """`accepted: [{address, path, file, line, column, before, after}]`; `refused`: as diagnostics."""
    return {
        "accepted": [_accepted_document(each) for each in acceptance.accepted],
        "refused": [_refusal_document(each) for each in acceptance.refused],
    }


def render_acceptance(acceptance: Acceptance, paths: Sequence[str] = (), run: RunOptions = NO_OPTIONS) -> str:
    """`paths`: those that were given, for a command that is about the same manifests."""
    return page_text(_lines(acceptance, paths, run))


def _lines(acceptance: Acceptance, paths: Sequence[str], run: RunOptions) -> Iterator[str]:
    for address in acceptance.quiet:
        yield f"{address} has no drift to accept."
    if acceptance.refused:
        refused, others = _named({each.address for each in acceptance.refused}), acceptance.others
        yield f"Not accepted: {refused}; no file was changed."
        if others:
            alone = command("drift", "--accept", *map(_no_option, paths), *others)
            yield f"The others alone: {alone.with_options(run)}"
        return
    for each in acceptance.accepted:
        values = f"{in_json(each.before)} -> {in_json(each.after)}"
        yield f"  {each.span.place if each.span is not None else each.address}: {each.path}: {values}"
    files = len({each.span.file for each in acceptance.accepted if each.span is not None})
    if acceptance.accepted:
        objects = len({each.address for each in acceptance.accepted})
        places = [counted(files, "file")] if files else []
        places += ["the state"] if acceptance.records else []
        yield f"Accepted: {counted(objects, 'object')} in {' and '.join(places)}; {_still(acceptance)}"
    elif not acceptance.quiet:
        yield "Nothing to accept."


def _no_option(path: str) -> str:
    """`path` so that no command takes it for an option."""
    return f"./{path}" if path.startswith("-") and path != "-" else path


def _still(acceptance: Acceptance) -> str:
    remaining = len(acceptance.remaining)
    return f"{remaining} still drifting." if remaining else "nothing drifts any more."


def _named(addresses: set[Address]) -> str:
    return ", ".join(sorted(map(str, addresses)))


def _accepted_document(each: Accepted) -> dict[str, Any]:
    return {
        "address": str(each.address),
        "path": each.path,
        **position(each.span),
        "before": each.before,
        "after": each.after,
    }


def _refusal_document(each: Refusal) -> dict[str, Any]:
    return {"address": str(each.address), "path": each.path, **to_builtins(DiagnosticJson.of(each.why))}

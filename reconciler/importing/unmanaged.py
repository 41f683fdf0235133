"""Import: finds live objects that nobody manages, and makes manifests that adopt them. Sends only GET."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.advice import RunOptions, command, spell
from reconciler.core.diagnostics import UNKNOWN_OUTCOME, Diagnostic, error, warning
from reconciler.core.words import counted
from reconciler.execution.open_intents import parse_intent
from reconciler.importing.files import Planned, Present
from reconciler.importing.ownership import Entry, Known, Live, Skipped, sort_out
from reconciler.importing.search import Wanted, find_live
from reconciler.kinds import find_kinds
from reconciler.manifests.files import name_of
from reconciler.moves.records import follow_moves
from reconciler.project.gather import read_siblings
from reconciler.project.project import Project
from reconciler.reports.escape import page_text
from reconciler.reports.fragments import DiagnosticJson
from reconciler.reports.report import Page, advise
from reconciler.state.store import State

_SKELETON = re.compile(rb"^# ([A-Z][A-Za-z]*/\S+) is set on the platform; ", re.MULTILINE)


class Unmanaged(Struct, frozen=True):
    """Manifests for the objects that nobody declares or records, and the skipped objects.

    `reported`: keys of the skipped objects that a diagnostic reports.
    """

    entries: Sequence[Entry]
    skipped: Sequence[Skipped]
    diagnostics: Sequence[Diagnostic]
    reported: frozenset[tuple[str, str, str]]


async def know(project: Project, state: State, present: Present) -> Known:
    """The owners of objects: the manifests, `state` after their moves, and other environments."""
    kinds, loaded = find_kinds(), present.loaded
    return Known(
        loaded.resources,
        follow_moves(kinds, loaded.policies, loaded.resources, state.records).records,
        loaded.policies,
        kinds,
        _skeletons(present) if "secrets.list" in project.capabilities else frozenset(),
        present.elsewhere,
        await read_siblings(project.environments),
    )


async def find_unmanaged(project: Project, present: Present, wanted: Wanted) -> Unmanaged:
    """Find the unmanaged objects among those that are wanted."""
    state = await project.store.load()
    known = await know(project, state, present)
    found = await find_live(project, wanted, known)
    doubtful, open_calls = doubtful_objects(found.live, state)
    entries, skipped = sort_out((live for live in found.live if live.key not in doubtful), known)
    problems = [*found.problems, *open_calls]
    reported = set()
    for item in skipped:
        if item.why == "gone" and item.live.key in found.by_id:
            problems.append(error("not-importable", f"{item.live} cannot be imported: {item.reason}"))
        elif item.why == "refused":
            problems.append(warning("not-importable", f"{item.live} is not imported: {item.reason}"))
        else:
            continue
        reported.add(item.live.key)
    return Unmanaged(entries, skipped, (*problems, *_objectives(known, entries)), frozenset(reported))


def _skeletons(present: Present) -> frozenset[str]:
    """The addresses in comments of manifests, in the form that comments show."""
    found: set[str] = set()
    for name in present.loaded.files:
        found |= {address.decode() for address in _SKELETON.findall((present.root / name).read_bytes())}
    return frozenset(found)


def doubtful_objects(
    found: Sequence[Live], state: State
) -> tuple[set[tuple[str, str, str]], list[Diagnostic]]:
    """Keys of objects that a call of unknown outcome may have created, and errors about these calls."""
    doubtful: set[tuple[str, str, str]] = set()
    problems = []
    for entry in state.open_intents:
        address = entry.address
        if address is None or not parse_intent(entry).creates:
            continue
        near = [
            live
            for live in found
            if live.kind.name == address.kind and (not live.kind.in_app or live.place == address.app)
        ]
        if near:
            apply = command("apply")
            doubtful |= {live.key for live in near}
            problems.append(
                error(
                    UNKNOWN_OUTCOME,
                    f"a call for `{address}` has an unknown outcome: it may have created one of "
                    f"{len(near)} {address.kind}s that were found, so none of them gets a manifest",
                    help=f"run `{apply}`, which settles it or asks, and run this again",
                    advice=(apply,),
                    about=(address,),
                )
            )
    return doubtful, problems


def _objectives(known: Known, entries: Sequence[Entry]) -> Iterator[Diagnostic]:
    """Warn of policies with objectives for imported objects: a plan may then show more than adoptions."""
    for policy, count in known.objectives(entry.live for entry in entries):
        yield warning(
            "import-objective",
            f"{policy.address} has objectives for {count} of the imported objects: the next plan may also "
            "contain changes for them",
            policy.span("spec"),
        )


# --- as JSON and as text ---


def import_page(
    unmanaged: Unmanaged, planned: Sequence[Planned], root: Path, run: RunOptions, *, dry_run: bool
) -> Page:
    """The files that were written, with their new text in a dry run; and the objects that were skipped."""
    skipped = [replace(item, reason=spell(item.reason, item.advice, run)) for item in unmanaged.skipped]
    document = {
        "dry_run": dry_run,
        "files": [
            {"file": _name(file, root), "action": "create" if file.change.before is None else "append"}
            | ({"text": file.change.added} if dry_run else {})
            for file in planned
        ],
        "imported": [
            {
                "address": str(entry.address),
                "id": entry.live.id,
                "file": _name(file, root),
                "as": "comment" if entry.declared.skeleton else "manifest",
            }
            for file in planned
            for entry in file.entries
        ],
        "skipped": [
            {
                "kind": item.live.kind.name,
                "app": item.live.place if item.live.kind.in_app else None,
                "id": item.live.id,
                "why": item.why,
                "reason": item.reason,
            }
            for item in skipped
        ],
        "diagnostics": DiagnosticJson.all_of(advise(unmanaged.diagnostics, run)),
    }
    reported = [item for item in skipped if item.why != "known" and item.live.key not in unmanaged.reported]
    lines = [line for file in planned for line in _file_lines(file, root, dry_run=dry_run)]
    lines += [f"skipped: {item.live}: {item.reason}" for item in reported]
    lines.append(_summary(planned, sum(item.why == "known" for item in skipped), dry_run=dry_run))
    return Page(document=document, text=page_text(lines), diagnostics=tuple(unmanaged.diagnostics))


def _name(file: Planned, root: Path) -> str:
    return name_of(str(file.change.path), root)


def _file_lines(file: Planned, root: Path, *, dry_run: bool) -> Iterator[str]:
    """One line about a file; in a dry run its new text, too."""
    counts = Counter((entry.declared.skeleton, entry.address.kind) for entry in file.entries)
    counted_kinds = ", ".join(
        f"{count} {kind}{' as comment' if skeleton else ''}"
        for (skeleton, kind), count in sorted(counts.items())
    )
    yield f"{_name(file, root)} ({'new' if file.change.before is None else 'appended'}): {counted_kinds}"
    for line in file.change.added.splitlines() if dry_run else ():
        yield f"    {line}".rstrip()


def _summary(planned: Sequence[Planned], known: int, *, dry_run: bool) -> str:
    adopted = sum(not entry.declared.skeleton for file in planned for entry in file.entries)
    summary = "Would import" if dry_run else "Imported"
    if planned:
        summary += f": {counted(adopted, 'object')} in {counted(len(planned), 'file')}"
    else:
        summary += " nothing new"
    return f"{summary}; {known} known already." if known else f"{summary}."

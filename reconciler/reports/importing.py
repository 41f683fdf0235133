"""What an import wrote, as text for people and as JSON."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.words import counted
from reconciler.importing.arrange import Entry
from reconciler.importing.ownership import Skipped
from reconciler.reports.escape import page_text
from reconciler.reports.fragments import DiagnosticJson

_INDENT = "    "


class File(NamedTuple):
    """One file that was written, or would be. `text`: what is new in it, where that is to be shown."""

    name: str
    new: bool
    entries: Sequence[Entry]
    text: str = ""


def render_import(
    files: Sequence[File],
    skipped: Sequence[Skipped],
    *,
    reported: Collection[tuple[str, str, str]] = (),
    dry_run: bool,
) -> str:
    """One line a file, and one for each object that was left out for another reason than being known.

    `reported`: keys of objects of which a diagnostic tells already.
    """
    lines = []
    for file in files:
        lines.append(f"{file.name} ({'new' if file.new else 'appended'}): {_counted(file.entries)}")
        lines += [f"{_INDENT}{line}".rstrip() for line in file.text.splitlines()]
    others = (each for each in skipped if each.why != "known" and each.live.key not in reported)
    lines += [f"skipped: {each.live}: {each.reason}" for each in others]
    known = sum(each.why == "known" for each in skipped)
    adopted = sum(not entry.declared.skeleton for file in files for entry in file.entries)
    verb = "Would import" if dry_run else "Imported"
    summary = f"{verb} nothing new"
    if files:
        summary = f"{verb}: {counted(adopted, 'object')} in {counted(len(files), 'file')}"
    lines.append(f"{summary}; {known} known already." if known else f"{summary}.")
    return page_text(lines)


def _counted(entries: Sequence[Entry]) -> str:
    counts = Counter((entry.declared.skeleton, entry.address.kind) for entry in entries)
    return ", ".join(
        f"{count} {kind}{' as comment' if skeleton else ''}"
        for (skeleton, kind), count in sorted(counts.items())
    )


def import_document(
    files: Sequence[File], skipped: Sequence[Skipped], diagnostics: Sequence[Diagnostic], *, dry_run: bool
) -> dict[str, Any]:
    """`imported` and `skipped` by object, `files` by name; in a dry run with the text that is new."""
    return {
        "dry_run": dry_run,
        "files": [
            {"file": file.name, "action": "create" if file.new else "append"}
            | ({"text": file.text} if dry_run else {})
            for file in files
        ],
        "imported": [each for file in files for each in _entries(file)],
        "skipped": [
            {
                "kind": each.live.kind.name,
                "app": each.live.place if each.live.kind.in_app else None,
                "id": each.live.id,
                "why": each.why,
                "reason": each.reason,
            }
            for each in skipped
        ],
        "diagnostics": DiagnosticJson.all_of(diagnostics),
    }


def _entries(file: File) -> Iterator[dict[str, Any]]:
    for entry in file.entries:
        yield {
            "address": str(entry.address),
            "id": entry.live.id,
            "file": file.name,
            "as": "comment" if entry.declared.skeleton else "manifest",
        }

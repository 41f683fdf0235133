"""The outlook by the recorded looks: which objects will be full, when, and what size is enough.

Nothing is asked of the platform, so the same looks and manifests always give the same.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.context import Context
from reconciler.core.errors import Refused
from reconciler.core.model import ALERT_AT, Resource
from reconciler.core.words import counted
from reconciler.drift.accept import rewritten
from reconciler.drift.acceptance import Accepted, Refusal
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import FillsUp, Look
from reconciler.manifests.writing.replace import replace_files
from reconciler.manifests.writing.rewrite import Edit
from reconciler.project.looks import recorded_looks
from reconciler.project.trends import Trend, trend_of, when_full
from reconciler.reports.escape import page_text
from reconciler.reports.report import OutlookReport
from reconciler.state.store import State

_ALLOWED = 80  # percent: how full an object may be, where nothing says so
_STEP = 20  # percent of its size, likewise
_WIDTH, _HEIGHT = 480, 120  # of a drawing, in pixels


class Outlook(Struct, frozen=True):
    """The time ahead of one object. `looks`: oldest first, those that show how full it is.

    `limit`: how many bytes it can hold, with the room that it grows into by itself. `full`, `alert`: when
    that is used, and when it is as full as its manifest allows; None: not in that time, or nobody knows.
    `proposed`: the edit that makes it large enough until then; None: nothing is to be edited, or only a
    person can.
    """

    resource: Resource
    id: str
    looks: Sequence[Look]
    trend: Trend | None = None
    limit: int = 0
    full: datetime | None = None
    alert: datetime | None = None
    proposed: Edit | None = None


def outlooks(state: State, resources: Iterable[Resource], until: datetime) -> Iterator[Outlook]:
    """Yield the outlook until then of each recorded object that can fill up."""
    kinds = find_kinds()
    for resource in resources:
        role = kinds[resource.address.kind].role(FillsUp)
        record = state.records.get(resource.address)
        if role is not None and record is not None:
            looks = recorded_looks(state, resource.address.kind, record.id)
            known = [look for look in looks if look.percent is not None]
            yield outlook_of(role, resource, record.id, known, until)


def outlook_of(role: FillsUp, resource: Resource, id: str, looks: Sequence[Look], until: datetime) -> Outlook:
    """Return what `looks`, oldest first and all with a size, say of one object."""
    trend = trend_of(looks)
    if trend is None:
        return Outlook(resource, id, looks)
    last, allowed = looks[-1], resource.objectives.get(ALERT_AT)
    total, size_gb = last.total_bytes or 0, last.size_gb or 1
    most_gb = role.most_gb(resource.spec)
    limit = total * max(size_gb, most_gb or 0) // size_gb if resource.grow is not None else total
    full = trend.full_at(limit, until)
    alert = trend.full_at(total * allowed // 100, until) if allowed else None
    proposed = None
    if full is not None and resource.grow is None:
        room, enough_gb = total / size_gb * (allowed or _ALLOWED) / 100, size_gb
        while trend.used_at(until) >= enough_gb * room:
            enough_gb += -(-enough_gb * _STEP // 100)
        path = ("spec", "size_gb") if most_gb is None else ("spec", "size_gb", "min")
        enough_gb = min(enough_gb, most_gb or role.largest_gb)
        if enough_gb > size_gb and path in resource.spans and path not in resource.inherited:
            proposed = Edit(resource, path, enough_gb)
    return Outlook(resource, id, looks, trend, limit, full, alert, proposed)


def propose(found: Iterable[Outlook], root: Path, folder: Path) -> Sequence[Accepted]:
    """Write the manifests with the proposed sizes into `folder`, where they stand below `root`.

    Raises Refused, with no file written, where one cannot be edited.
    """
    proposed = (outlook.proposed for outlook in found if outlook.proposed is not None)
    by_size = sorted(proposed, key=lambda edit: int(edit.value))
    # One for all objects of a manifest: the largest.
    edits = {(edit.resource.file, edit.resource.spans[()]): edit for edit in by_size}
    refused: list[Refusal] = []
    accepted, files = rewritten(list(edits.values()), root, refused)
    names = [os.path.relpath(file.path.resolve(), root.resolve()) for file in files]
    outside = [name for name in names if name.startswith("..")]
    if refused or outside:
        why = f"{outside[0]} is not in the project" if outside else "not every manifest can be edited"
        raise Refused(f"{why}; nothing was written", [refusal.why for refusal in refused])
    if folder.resolve() != root.resolve():
        files = [
            replace(file, path=folder / name, before=None) for file, name in zip(files, names, strict=True)
        ]
        for file in files:
            file.path.parent.mkdir(parents=True, exist_ok=True)
    replace_files(files)
    return accepted


# --- as JSON, as text, and drawn ---


def outlook_report(
    found: Iterable[Outlook], until: datetime, written: Sequence[Accepted], context: Context
) -> OutlookReport:
    """Return what is shown. `written`: the sizes that were written into manifests."""
    found = sorted(found, key=lambda each: (each.full or until, str(each.resource.address)))
    full = sum(each.full is not None for each in found)
    captions = [f"{each.resource.address} {each.id}: {_said(each)}" for each in found]
    lines = [f"{full} of {counted(len(found), 'object')} will be full by {until:%Y-%m-%d}.", *captions]
    lines += [f"Wrote {item.path}: {item.before} -> {item.after} for {item.address}" for item in written]
    edits = [
        {"address": str(item.address), "path": item.path, "before": item.before, "after": item.after}
        for item in written
    ]
    return OutlookReport(
        document={"until": until, "objects": [_document(each) for each in found], "written": edits},
        text=page_text(lines),
        context=context,
        drawings=[(caption, _drawing(each)) for caption, each in zip(captions, found, strict=True)],
    )


def _said(each: Outlook) -> str:
    """The outlook of one object in a line."""
    if not each.looks:
        return "not recorded"
    said = [str(each.looks[-1]), when_full(each.trend, each.limit)]
    said += [f"as full as its {ALERT_AT} on {each.alert:%Y-%m-%d}"] if each.alert is not None else []
    if (edit := each.proposed) is not None:
        said.append(f"`{edit.name}: {edit.value}` is enough until then")
    return "; ".join(said)


def _document(each: Outlook) -> dict[str, Any]:
    edit, trend = each.proposed, each.trend
    return {
        "address": str(each.resource.address),
        "id": each.id,
        "looks": len(each.looks),
        "last": each.looks[-1] if each.looks else None,
        "bytes_a_day": round(trend.pace * 86_400) if trend is not None else None,
        "told_until": trend.until if trend is not None else None,
        "full_at": each.full,
        ALERT_AT: each.alert,
        "proposed": {"path": edit.name, "value": edit.value} if edit is not None else None,
    }


def _drawing(each: Outlook) -> str:
    """The used bytes as a line from the first look on, and dashed as far as the trend tells. Only numbers.

    "" without a trend.
    """
    if (trend := each.trend) is None:
        return ""
    first = each.looks[0].at

    def point(at: datetime, used: float) -> str:
        x, y = (at - first) / (trend.until - first), 1 - min(used / each.limit, 1)
        return f"{x * _WIDTH:.1f},{y * _HEIGHT:.1f}"

    seen = " ".join(point(look.at, look.used_bytes or 0) for look in each.looks)
    ahead = f"{point(*trend.last)} {point(trend.until, trend.used_at(trend.until))}"
    line = '<polyline fill="none" stroke="currentColor" stroke-width="2"'
    return (
        f'<svg viewBox="0 -2 {_WIDTH} {_HEIGHT + 4}" width="{_WIDTH}" height="{_HEIGHT}" role="img">'
        f'{line} points="{seen}"/>{line} stroke-dasharray="4 4" points="{ahead}"/></svg>'
    )

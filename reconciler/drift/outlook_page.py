"""The page of `reconcile forecast`: what will be full, what is not known, and a drawing of each trend."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import to_builtins

from reconciler.core.context import Context
from reconciler.core.model import ALERT_AT
from reconciler.core.words import counted
from reconciler.drift.acceptance import Accepted
from reconciler.drift.outlook import Outlook
from reconciler.project.trends import outlook
from reconciler.reports.escape import page_text
from reconciler.reports.report import OutlookReport

_WIDTH, _HEIGHT = 480, 120  # of a drawing, in pixels


def outlook_page(
    found: Sequence[Outlook], until: datetime, written: Sequence[Accepted], context: Context
) -> OutlookReport:
    """Return the page. `written`: the sizes that were written into manifests."""
    found = sorted(found, key=lambda each: (each.full or until, str(each.record.address)))
    full = sum(each.full is not None for each in found)
    captions = [f"{each.record.address} {each.record.id}: {_said(each)}" for each in found]
    lines = [f"{full} of {counted(len(found), 'object')} will be full by {until:%Y-%m-%d}.", *captions]
    lines += [f"Wrote {item.path}: {item.before} -> {item.after} for {item.address}" for item in written]
    return OutlookReport(
        document={
            "until": until.isoformat(),
            "objects": [_document(each) for each in found],
            "written": [
                {"address": str(one.address), "path": one.path, "before": one.before, "after": one.after}
                for one in written
            ],
        },
        text=page_text(lines),
        context=context,
        drawings=[(says, _drawing(each)) for says, each in zip(captions, found, strict=True)],
    )


def _said(each: Outlook) -> str:
    """The outlook of one object in a line."""
    if not each.looks:
        return "not recorded"
    said = [str(each.looks[-1]), outlook(each.trend, each.limit)]
    said += [f"as full as its {ALERT_AT} on {each.alert:%Y-%m-%d}"] if each.alert is not None else []
    if (edit := each.proposed) is not None:
        said.append(f"`{edit.name}: {edit.value}` is enough until then")
    return "; ".join(said)


def _document(each: Outlook) -> dict[str, Any]:
    edit, trend = each.proposed, each.trend
    return {
        "address": str(each.record.address),
        "id": each.record.id,
        "looks": len(each.looks),
        "last": to_builtins(each.looks[-1]) if each.looks else None,
        "bytes_a_day": round(trend.pace * 86_400) if trend is not None else None,
        "told_until": trend.until.isoformat() if trend is not None else None,
        "full_at": each.full.isoformat() if each.full is not None else None,
        ALERT_AT: each.alert.isoformat() if each.alert is not None else None,
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

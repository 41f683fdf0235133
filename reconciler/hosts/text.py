"""The text of a comment, and the words of a status, from reports."""

import html
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec.structs import replace

from reconciler.core.diagnostics import has_errors
from reconciler.hosts.host import State
from reconciler.reports import verdict
from reconciler.reports.escape import visible
from reconciler.reports.formats.markdown import render_within
from reconciler.reports.report import ApplyReport, DriftReport, Failure, Report

_LONGEST_MESSAGE = 2_000  # of a failure, which is the first line of its report: it is never cut elsewhere


def comment_text(reports: Sequence[Report], url: str, most: int, remark: str = "") -> str:
    """At most `most` bytes: each report's verdict, what else has room, and where all of it is (`url`)."""
    before = f"{remark}\n\n" if remark else ""
    after = f'\n<a href="{html.escape(url)}">The full report</a>\n' if is_link(url) else ""
    room = most - len(f"{before}{after}".encode())
    texts = []
    for at, report in enumerate(reports):
        text = render_within(_short(report), room // (len(reports) - at) - 1)
        room -= len(text.encode()) + 1
        texts.append(text)
    return before + "\n".join(texts) + after


def is_link(url: str) -> bool:
    """Whether `url` may be linked to: hosts show it to people."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and "@" not in parts.netloc
        and url.isprintable()
        and len(url) < 2_000
    )


def state_of(reports: Sequence[Report]) -> State:
    """The gravest: drift and what failed; then what is under way, or waits for a person."""
    states = {_state(each) for each in reports}
    return next((each for each in _GRAVEST_FIRST if each in states), "success")


def said_of(reports: Sequence[Report], most: int) -> str:
    """The verdict of the gravest report, in at most `most` characters."""
    gravest = min(reports, key=lambda each: _GRAVEST_FIRST.index(_state(each)))
    text = " ".join(visible(" ".join(verdict.of_report(gravest).split())).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


_GRAVEST_FIRST: tuple[State, ...] = ("failure", "pending", "success")


def _state(report: Report) -> State:
    if isinstance(report, Failure) or has_errors(report.diagnostics):
        return "failure"
    if isinstance(report, DriftReport):
        return "failure" if report.plan.changes else "success"
    if isinstance(report, ApplyReport):
        outcomes = {each.outcome for each in report.results}
        if "failed" in outcomes or report.ended != "done":
            return "failure"
        return "success" if outcomes <= {"done"} else "pending"
    return "success"


def _short(report: Report) -> Report:
    if not isinstance(report, Failure):
        return report
    return replace(report, message=_cut(report.message), help=_cut(report.help))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"

"""What was done, by whom and why, as pages: a line a run, or one run with all its calls."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from reconciler.core.context import Context
from reconciler.core.model import Address
from reconciler.core.words import counted
from reconciler.reports.escape import page_text
from reconciler.reports.report import Page
from reconciler.reports.verdict import owed_words
from reconciler.state.runs import NOTED, Decision, History, PastCall, PastRun
from reconciler.state.store import Run

SHORT = 8  # characters of a run's id, or a revision
_WORDS = {"not-converged": "not converged", "cut-off": "cut off"}


def history_page(
    history: History,
    context: Context,
    *,
    running: frozenset[str] = frozenset(),
    names: frozenset[Address] = frozenset(),
    most: int | None = None,
) -> Page:
    """Newest first, and at most `most` of the runs and decisions. `names`: whose calls to show."""
    items: list[PastRun | Decision] = [*history.runs, *history.decisions]
    items.sort(key=_at, reverse=True)
    shown = items if most is None else items[:most]
    lines = [line for item in shown for line in _lines(item, running, names)]
    older = len(items) - len(shown)
    return Page(
        document={
            "runs": [_summary(each, running, names) for each in shown if isinstance(each, PastRun)],
            "decisions": [decision_document(each) for each in shown if isinstance(each, Decision)],
            "older": older,
        },
        text=page_text(lines),
        notices=_notices(len(items), older, most),
        context=context,
    )


def run_page(run: PastRun, later: Sequence[Decision], context: Context, *, running: bool) -> Page:
    """All of one run. `later`: what a person said about its calls once it was over."""
    began = run.began
    ended = _ended(run, running=running)
    facts = {
        "began": _moment(run.began_at),
        "ended": f"{_moment(run.ended_at)}: {ended}" if run.ended_at is not None else ended,
        "by": ", ".join(filter(None, (began.actor, began.url))),
        "reason": began.reason,
        "environment": began.environment,
        "revision": began.revision and f"{began.revision}{_dirty(run, ', and files that differ from it')}",
        "plan": began.plan and f"{began.plan}{began.resources and f' of resources {began.resources}'}",
        "scopes": ", ".join(filter(None, run.scopes)),
        "changes": _counts(run.changes),
        **{name: ", ".join(run.addresses(name)) for name in NOTED},
    }
    lines = [f"run {run.id}", *(f"  {name + ':':<13}{value}" for name, value in facts.items() if value)]
    lines += ["", f"{counted(len(run.calls), 'call')}{':' if run.calls else ''}"]
    lines += [f"  {line}" for call in run.calls for line in _call_lines(call)]
    for wait in run.waits:
        there = f"not there yet: {wait.seen}" if wait.seen else "reached"
        lines.append(f"  {_clock(wait.at)} waited  {wait.step}  {there}")
    decisions = [*run.decisions, *later]
    if decisions:
        lines += ["", "decisions:", *(f"  {_moment(each.at)}  {_decision(each)}" for each in decisions)]
    if run.owed:
        lines += ["", "owed at its end:", *(f"  {_owed(each)}" for each in run.owed)]
    document = {
        **_summary(run, frozenset({run.id} if running else ()), frozenset()),
        "calls": [_call(each) for each in run.calls],
        "waits": [
            {
                "address": _text_of(each.address),
                "step": each.step,
                "at": each.at.isoformat(),
                "seen": each.seen,
            }
            for each in run.waits
        ],
        "decisions": [decision_document(each) for each in decisions],
        "observed": dict(run.observed) or None,
    }
    return Page(document={"run": document}, text=page_text(lines), context=context)


def decision_document(decision: Decision) -> dict[str, Any]:
    return {
        "run": decision.run or None,
        "at": decision.at.isoformat(),
        "scope": decision.scope,
        "address": _text_of(decision.address),
        **{name: decision.data.get(name) for name in _ATTRIBUTION},
        "decided": decided(decision),
        "data": dict(decision.data),
    }


def _at(item: PastRun | Decision) -> datetime:
    return item.began_at if isinstance(item, PastRun) else item.at


def _lines(item: PastRun | Decision, running: frozenset[str], names: frozenset[Address]) -> Iterator[str]:
    if isinstance(item, Decision):
        yield f"{_short(item.run):<{SHORT}}  {_moment(item.at)}  {_decision(item)}"
        return
    began = item.began
    by = f" by {began.actor}" if began.actor else ""
    revision = f" at {began.revision[:SHORT]}{_dirty(item, '-dirty')}" if began.revision else ""
    environment = f" in {began.environment}" if began.environment else ""
    done = [_counts(item.changes), _counted_calls(item)]
    what = "; ".join(filter(None, done)) or "records only"
    ended = _ended(item, running=item.id in running)
    yield f"{_short(item.id)}  {_moment(item.began_at)}  {ended}: {what}{by}{environment}{revision}"
    if began.reason:
        yield f"{'':<{SHORT}}  because: {began.reason}"
    for owed in item.owed:
        yield f"{'':<{SHORT}}  owed: {_owed(owed)}"
    for call in item.calls:
        if call.address in names:
            yield from (f"{'':<{SHORT}}  {line}" for line in _call_lines(call))


def _summary(run: PastRun, running: frozenset[str], names: frozenset[Address]) -> dict[str, Any]:
    began = run.began
    found: dict[str, Any] = {
        "id": run.id,
        "began": run.began_at.isoformat(),
        "ended": run.ended_at.isoformat() if run.ended_at is not None else None,
        "outcome": run.ended(running=run.id in running),
        **_known(began, "actor", "url", "reason", "environment", "revision"),
        "dirty": began.dirty,
        **_known(began, "plan", "resources"),
        "scopes": run.scopes,
        "changes": dict(run.changes),
        "outcomes": dict(run.outcomes),
        **{name: list(run.addresses(name)) for name in NOTED},
        "owed": [dict(each) for each in run.owed],
    }
    if names:
        found["calls"] = [_call(each) for each in run.calls if each.address in names]
    return found


def _known(began: Run, *names: str) -> dict[str, Any]:
    """Null for what nobody said."""
    return {name: getattr(began, name) or None for name in names}


def _call(call: PastCall) -> dict[str, Any]:
    return {
        "address": _text_of(call.address),
        "step": call.step,
        "attempt": call.attempt,
        "method": call.method,
        "path": call.path,
        "service": call.service or None,
        "sent": call.sent_at.isoformat(),
        "ended": call.ended_at.isoformat() if call.ended_at is not None else None,
        "outcome": call.outcome,
        "id": call.id or None,
        "error": call.why or None,
        "settled": dict(call.settled) if call.settled is not None else None,
    }


def _call_lines(call: PastCall) -> Iterator[str]:
    found = "" if call.settled is None else f" (found out {_moment(call.ended_at)})"
    id = f" {call.id}" if call.id else ""
    yield f"{_clock(call.sent_at)} {call.method} {call.path}  {call.step}  {call.outcome}{id}{found}"
    if call.why:
        yield f"         {call.why}"


def _ended(run: PastRun, *, running: bool) -> str:
    word = run.ended(running=running)
    return _WORDS.get(word, word)


def _counted_calls(run: PastRun) -> str:
    """How the steps ended, where that is not simply: all are done."""
    counts = run.outcomes
    if counts.keys() <= {"done"} and run.changes:
        return ""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _counts(changes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in changes.items())


def _decision(decision: Decision) -> str:
    by, reason = (str(decision.data.get(name) or "") for name in ("by", "reason"))
    return f"{decided(decision)}{by and f' by {by}'}{reason and f', because: {reason}'}"


def _owed(owed: Mapping[str, Any]) -> str:
    work = owed_words(f"{owed.get('work')} of {owed.get('address')}", str(owed.get("certainty")))
    return f"{work}, because {owed.get('because')}"


def _dirty(run: PastRun, text: str) -> str:
    return text if run.began.dirty else ""


def _notices(found: int, older: int, most: int | None) -> str:
    if not found:
        return "nothing was done in that time\n" if most is None else "nothing was done yet\n"
    return f"… and {older} older: --since shows them\n" if older else ""


def _short(run: str) -> str:
    return run[:SHORT] or "-"


def _moment(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at is not None else ""


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M:%S}"


def _text_of(address: Address | None) -> str | None:
    return str(address) if address is not None else None


# --- decisions in words ---

_ATTRIBUTION = ("by", "url", "reason")
# By a key of the data that no other decision has.
_DECIDED: Mapping[str, Callable[[Mapping[str, Any], Address | None], str]] = {
    "salvaged": lambda data, address: f"the state was restored from {data.get('restored')}",
    "new_key": lambda data, address: "the state got a new fingerprint key",
    "rekeyed": lambda data, address: f"the state was {_encrypted(data)}",
    "landed": lambda data, address: f"the call for {address} made nothing",
    "to": lambda data, address: f"{data.get('from')} ({data.get('id')}) is recorded as {data['to']}",
    "confirmed": lambda data, address: f"{address} is {data.get('id')}",
    "restarted": lambda data, address: f"the restart owed for {address} is done",
    "dismissed": lambda data, address: f"{_listed(data['dismissed'])} may exist beside {address}",
    "accepted": lambda data, address: f"the changes of {address} ({data['accepted']}) are as they should be",
    "forget": lambda data, address: f"the record of {address} ({data['forget']}) was dropped",
    "claimed": lambda data, address: f"the untracked object {data['claimed']} is not reported any more",
    "unclaimed": lambda data, address: f"{data['unclaimed']} has no record: {data.get('because')}",
    "moved_from": lambda data, address: f"{data['moved_from']} is recorded as {address} in another scope",
    "moved_away": lambda data, address: f"{data['moved_away']} has moved to {data.get('moved_to')}",
    "platform": lambda data, address: f"the state is about the platform at {data['platform']}",
    "unlock": lambda data, address: (
        f"{data['unlock'] or 'the whole state'} was unlocked, held by {data.get('holder')}"
    ),
    "environment": lambda data, address: f"the state is that of environment {data['environment']}",
    "dropped": lambda data, address: f"{data['dropped']} was dropped",
    "remembered": lambda data, address: (
        f"the state remembers {_REMEMBERED.get(data['remembered'], data['remembered'])}"
    ),
    "id": lambda data, address: f"{address} is {data['id']}",
}
# By the name under which a state remembers it.
_REMEMBERED: Mapping[str, str] = {
    "made": "when it was made",
    "older": "which older objects are known",
    "approvals": "the approval rules, signers and objectives in force",
    "not-created": "which creates a person said did not happen",
}


def decided(decision: Decision) -> str:
    """Without who and why. What a newer program wrote is shown as it stands in the journal."""
    data = decision.data
    for name, words in _DECIDED.items():
        if name in data:
            return f"{words(data, decision.address)}{', by force' if data.get('forced') else ''}"
    return json.dumps({name: value for name, value in data.items() if name not in _ATTRIBUTION})


def _encrypted(data: Mapping[str, Any]) -> str:
    if not data["rekeyed"]:
        return "decrypted"
    return f"encrypted to {counted(data['rekeyed'], 'recipient')}, with key {data.get('generation')}"


def _listed(ids: Any) -> str:
    return ", ".join(map(str, ids)) if isinstance(ids, list) else str(ids)

"""The history of a state as pages: one line a run, or one run with all its calls."""

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
    """The newest runs and decisions first, at most `most` of them.

    `running`: ids of runs whose process is alive. `names`: addresses whose calls are shown.
    """
    items: list[PastRun | Decision] = [*history.runs, *history.decisions]
    items.sort(key=lambda item: item.began_at if isinstance(item, PastRun) else item.at, reverse=True)
    shown = items if most is None else items[:most]
    lines = [line for item in shown for line in _lines(item, running, names)]
    older = len(items) - len(shown)
    return Page(
        document={
            "runs": [_summary(item, running, names) for item in shown if isinstance(item, PastRun)],
            "decisions": [_decision_json(item) for item in shown if isinstance(item, Decision)],
            "older": older,
        },
        text=page_text(lines),
        notices=_notices(len(items), older, most),
        context=context,
    )


def run_page(run: PastRun, later: Sequence[Decision], context: Context, *, running: bool) -> Page:
    """One run with all its calls. `later`: decisions about its calls after its end."""
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
        lines += ["", "decisions:", *(f"  {_moment(item.at)}  {_decision(item)}" for item in decisions)]
    if run.owed:
        lines += ["", "owed at its end:", *(f"  {_owed(owed)}" for owed in run.owed)]
    document = {
        **_summary(run, frozenset({run.id} if running else ()), frozenset()),
        "calls": [_call_json(call) for call in run.calls],
        "waits": [_plain(wait, "address", "step", "at") | {"seen": wait.seen} for wait in run.waits],
        "decisions": [_decision_json(decision) for decision in decisions],
        "observed": dict(run.observed) or None,
    }
    return Page(document={"run": document}, text=page_text(lines), context=context)


def _decision_json(decision: Decision) -> dict[str, Any]:
    return {
        **_plain(decision, "run", "at"),
        "scope": decision.scope,
        **_plain(decision, "address"),
        **{name: decision.data.get(name) for name in _ATTRIBUTION},
        "decided": decided(decision),
        "data": dict(decision.data),
    }


def _plain(item: Any, *names: str) -> dict[str, Any]:
    """Attributes as JSON: addresses and times as text, and null for what is not known."""
    found = {name: getattr(item, name) or None for name in names}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value and str(value)
        for name, value in found.items()
    }


def _lines(item: PastRun | Decision, running: frozenset[str], names: frozenset[Address]) -> Iterator[str]:
    if isinstance(item, Decision):
        yield f"{_short(item.run):<{SHORT}}  {_moment(item.at)}  {_decision(item)}"
        return
    yield f"{_short(item.id)}  {run_line(item, running=item.id in running)}"
    if item.began.reason:
        yield f"{'':<{SHORT}}  because: {item.began.reason}"
    for owed in item.owed:
        yield f"{'':<{SHORT}}  owed: {_owed(owed)}"
    for call in item.calls:
        if call.address in names:
            yield from (f"{'':<{SHORT}}  {line}" for line in _call_lines(call))


def run_line(run: PastRun, *, running: bool) -> str:
    """When it was, how it ended, what it did, and by whom."""
    began = run.began
    by = f" by {began.actor}" if began.actor else ""
    revision = f" at {began.revision[:SHORT]}{_dirty(run, '-dirty')}" if began.revision else ""
    environment = f" in {began.environment}" if began.environment else ""
    what = "; ".join(filter(None, [_counts(run.changes), _counted_calls(run)])) or "records only"
    return f"{_moment(run.began_at)}  {_ended(run, running=running)}: {what}{by}{environment}{revision}"


def _summary(run: PastRun, running: frozenset[str], names: frozenset[Address]) -> dict[str, Any]:
    began = run.began
    found: dict[str, Any] = {
        "id": run.id,
        "began": run.began_at.isoformat(),
        "ended": run.ended_at.isoformat() if run.ended_at is not None else None,
        "outcome": run.ended(running=run.id in running),
        **_plain(began, "actor", "url", "reason", "environment", "revision"),
        "dirty": began.dirty,
        **_plain(began, "plan", "resources"),
        "scopes": run.scopes,
        "changes": dict(run.changes),
        "outcomes": dict(run.outcomes),
        **{name: list(run.addresses(name)) for name in NOTED},
        "owed": [dict(owed) for owed in run.owed],
    }
    if names:
        found["calls"] = [_call_json(call) for call in run.calls if call.address in names]
    return found


def _call_json(call: PastCall) -> dict[str, Any]:
    times = _plain(call, "sent_at", "ended_at")
    return {
        **_plain(call, "address"),
        "step": call.step,
        "attempt": call.attempt,
        "method": call.method,
        "path": call.path,
        **_plain(call, "service"),
        "sent": times["sent_at"],
        "ended": times["ended_at"],
        "outcome": call.outcome,
        **_plain(call, "id"),
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
    """The number of steps by outcome; "" where all are done."""
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


# --- decisions in words ---

_ATTRIBUTION = ("by", "url", "reason")
# The words for a decision, by a key of its data that no other decision has.
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
    "platform": lambda data, address: f"the state is about the platform at {data['platform']}",
    "unlock": lambda data, address: (
        f"{data['unlock'] or 'the whole state'} was unlocked, held by {data.get('holder')}"
    ),
    "environment": lambda data, address: f"the state is that of environment {data['environment']}",
    "dropped": lambda data, address: f"{data['dropped']} was dropped",
    "remembered": lambda data, address: f"the state remembers {_fact(data['remembered'])}",
    "id": lambda data, address: f"{address} is {data['id']}",
}
# The facts that a state remembers, by name.
_REMEMBERED: Mapping[str, str] = {
    "made": "when it was made",
    "older": "which older objects are known",
    "approvals": "the approval rules, signers and objectives in force",
    "not-created": "which creates a person said did not happen",
}


def decided(decision: Decision) -> str:
    """A decision in words, without its author and reason; JSON where a newer program wrote it."""
    data = decision.data
    for name, words in _DECIDED.items():
        if name in data:
            return f"{words(data, decision.address)}{', by force' if data.get('forced') else ''}"
    return json.dumps({name: value for name, value in data.items() if name not in _ATTRIBUTION})


def _fact(name: str) -> str:
    drill = name.removeprefix("drill:")
    return _REMEMBERED.get(name, f"what the drill `{drill}` found" if drill != name else name)


def _encrypted(data: Mapping[str, Any]) -> str:
    if not data["rekeyed"]:
        return "decrypted"
    return f"encrypted to {counted(data['rekeyed'], 'recipient')}, with key {data.get('generation')}"


def _listed(ids: Any) -> str:
    return ", ".join(map(str, ids)) if isinstance(ids, list) else str(ids)

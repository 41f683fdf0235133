"""What a journal says of each run: who began it and why, its calls, what became of them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from reconciler.core.model import Address
from reconciler.state.store import Event, JournalEntry, Run

Outcome = Literal["done", "failed", "unknown", "not-landed", "repeatable"]
Ended = Literal["done", "not-converged", "interrupted", "running", "cut-off"]

NOTED = ("adopted", "forgotten", "confirmed")  # what a run notes of records, without a call

_OUTCOMES: Mapping[Event, Outcome] = {
    Event.DONE: "done",
    Event.PENDING: "done",  # the call succeeded; what is waited for is not there
    Event.FAILED: "failed",
}


@dataclass(slots=True)
class PastCall:
    """One call that was sent, or was about to be. `ended_at`: when its outcome was recorded; None: never.

    `outcome`: "unknown" while nothing has told; "repeatable": nobody knows, and it may be sent again. `id`:
    what it made. `why`: of a failure, or how it was found out. `settled`: what evidence or a person said.
    """

    address: Address | None
    step: str
    attempt: int
    method: str
    path: str
    service: str
    sent_at: datetime
    outcome: Outcome = "unknown"
    ended_at: datetime | None = None
    id: str = ""
    why: str = ""
    settled: Mapping[str, Any] | None = None


@dataclass(slots=True)
class PastWait:
    """What a step waited for was there ("reached"), or not yet: then `seen` instead."""

    address: Address | None
    step: str
    at: datetime
    seen: str = ""


class Decision(Struct, frozen=True):
    """What a person decided, or a program noted, outside of the calls of a run. `data`: as it was journaled.

    `run`: the run that it is about or was part of; "" for none.
    """

    run: str
    scope: str
    at: datetime
    address: Address | None
    data: Mapping[str, Any]


@dataclass(slots=True)
class PastRun:
    """`began`: what was said at its beginning. `finished`: by scope, what was said at its end.

    `ended_at`: of the last scope; None where it did not come to the end of each. `noted`: by scope, which
    records it took in or dropped without a call. `observed`: what it saw before its first call.
    """

    id: str
    began: Run
    began_at: datetime
    scopes: list[str] = field(default_factory=list)
    changes: Mapping[str, int] = field(default_factory=dict)
    noted: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    calls: list[PastCall] = field(default_factory=list)
    waits: list[PastWait] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    observed: Mapping[str, Any] = field(default_factory=dict)
    finished: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    last_at: datetime | None = None

    @property
    def ended_at(self) -> datetime | None:
        return self.last_at if self.finished.keys() >= set(self.scopes) else None

    @property
    def owed(self) -> Sequence[Mapping[str, Any]]:
        """The work that was owed at its end in its scopes, as journaled."""
        return [owed for said in self.finished.values() for owed in _list(said.get("owed"))]

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How many of its steps ended how, as it said itself; counted from its calls where it did not."""
        for said in self.finished.values():
            if "outcomes" in said:
                return _counts(said["outcomes"])
        counts: dict[str, int] = {}
        for call in self.newest_calls:
            counts[call.outcome] = counts.get(call.outcome, 0) + 1
        return counts

    @property
    def newest_calls(self) -> Sequence[PastCall]:
        """Of each step the last attempt."""
        return list({call.step: call for call in self.calls}.values())

    def addresses(self, name: str) -> Sequence[str]:
        """What it noted under `name`, one of NOTED."""
        return [str(item) for noted in self.noted.values() for item in _list(noted.get(name))]

    def ended(self, *, running: bool = False) -> Ended:
        """`running`: its process is at work."""
        if self.ended_at is None:
            return "running" if running else "cut-off"
        if any(said.get("interrupted") for said in self.finished.values()):
            return "interrupted"
        return "done" if self.outcomes.keys() <= {"done"} else "not-converged"


@dataclass(slots=True)
class History:
    """Oldest first. `decisions`: those of no run; and what a person said later about a call of a run."""

    runs: list[PastRun] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)


def history_of(journal: Iterable[tuple[str, JournalEntry]]) -> History:
    """`journal`: as `Store.journal` returns it. Entries that a newer program wrote differently are kept."""
    history, runs = History(), dict[str, PastRun]()
    calls: dict[tuple[str, str, int], PastCall] = {}
    for scope, entry in journal:
        run = runs.get(entry.run) if entry.run else None
        if entry.event is Event.RUN_STARTED or (run is None and entry.event is not Event.DECIDED):
            if run is None:
                run = runs[entry.run] = _begun(entry)
                history.runs.append(run)
            if scope not in run.scopes:
                run.scopes.append(scope)
        if entry.event is Event.DECIDED:
            decision = Decision(entry.run, scope, entry.at, entry.address, entry.data)
            (run.decisions if run is not None else history.decisions).append(decision)
        elif run is not None:
            _take(run, calls, scope, entry)
            if entry.event is Event.SETTLED and "by" in entry.data:
                decision = Decision(entry.run, scope, entry.at, entry.address, entry.data)
                history.decisions.append(decision)
    return history


def _begun(entry: JournalEntry) -> PastRun:
    """The run of its first entry; `Run("")` where its beginning is not known."""
    known = entry.data if entry.event is Event.RUN_STARTED else {}
    return PastRun(entry.run, Run.from_json(known), entry.at, changes=_counts(known.get("changes")))


def _take(run: PastRun, calls: dict[tuple[str, str, int], PastCall], scope: str, entry: JournalEntry) -> None:
    key, data = (entry.run, entry.step, entry.attempt), entry.data
    call = calls.get(key)
    match entry.event:
        case Event.RUN_STARTED:
            run.noted[scope] = data
        case Event.RUN_OBSERVED:
            run.observed = data
        case Event.RUN_FINISHED:
            run.finished[scope] = data
            run.last_at = entry.at
        case Event.INTENT:
            calls[key] = PastCall(
                entry.address,
                entry.step,
                entry.attempt,
                str(data.get("method", "")),
                str(data.get("path", "")),
                str(data.get("service", "")),
                entry.at,
            )
            run.calls.append(calls[key])
        case Event.SETTLED if call is not None:
            call.outcome = _settled(data)
            call.ended_at, call.settled, call.id = entry.at, data, str(data.get("id") or "")
        case Event.UNKNOWN if call is not None:
            call.why = str(data.get("error", ""))
        case Event.DONE | Event.FAILED | Event.PENDING:
            if data.get("reached") or "seen" in data:
                run.waits.append(PastWait(entry.address, entry.step, entry.at, str(data.get("seen", ""))))
            if call is not None and call.ended_at is None:
                call.outcome, call.ended_at = _OUTCOMES[entry.event], entry.at
                call.id, call.why = str(data.get("id") or ""), str(data.get("error", ""))


def _settled(data: Mapping[str, Any]) -> Outcome:
    if data.get("absolute"):
        return "repeatable"
    return "not-landed" if data.get("landed") is False else "done"


def _counts(value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name): count for name, count in value.items() if isinstance(count, int)}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []

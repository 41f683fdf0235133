"""A run as a case: a folder with the world and the records that it started with, its manifests, faults and
trace. The faults let a sandbox repeat the calls, which are read from the journal.

`seed.json` and `faults.json` are a sandbox's own formats, `manifests.yaml` what `build` prints.
"""

import glob
import json
import math
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert, to_builtins

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, StateRecord
from reconciler.execution.limits import Limits
from reconciler.execution.observed import read_records
from reconciler.reports.documents import place_of
from reconciler.state.store import Event, JournalEntry

MANIFESTS = "manifests.yaml"
_PARTS = {"seed": "seed.json", "faults": "faults.json", "trace": "trace.json"}
_CASE = "case.json"
_MOST_BYTES = 16 << 20  # of one file


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`began`: its start. `about`: the addresses of its plan. `records`: by address, as journaled.

    `entries`: the length of its journal where it was cut off; None: it came to its end.
    """

    format: Literal["reconcile-case-1"] = "reconcile-case-1"
    run: str
    began: str
    about: list[str]
    records: dict[str, dict[str, Any]]
    capabilities: list[str]
    limits: Limits
    rate_limit: float | None
    switches: dict[str, Any]
    entries: int | None
    seed: dict[str, Any]
    faults: list[dict[str, Any]]
    trace: dict[str, Any]
    manifests: str

    def state_records(self) -> Mapping[Address, StateRecord]:
        """The records. Raises ValueError, KeyError or TypeError where one is not a record."""
        return read_records(self.records)


def write_case(case: Case, folder: Path) -> None:
    """Write the folder, or nothing. Raises ReconcilerError where it exists, or cannot be made."""
    if os.path.lexists(folder):
        raise ReconcilerError(f"{folder} exists already", help="name another folder, or remove it")
    document = to_builtins(case)
    texts = {MANIFESTS: document.pop("manifests")}
    texts |= {file: _json(document.pop(name)) for name, file in _PARTS.items()}
    texts[_CASE] = _json(document)
    made = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        for name, text in texts.items():
            (made / name).write_text(text, encoding="utf-8")
        made.chmod(0o755)
        made.rename(folder)
    except OSError as failure:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        raise ReconcilerError(f"{folder} cannot be written: {failure.strerror}") from failure


def read_case(folder: Path) -> Case:
    """Read a folder. Raises ReconcilerError where it holds no case of this version."""
    try:
        document = _parsed(folder / _CASE)
        if not isinstance(document, dict):
            raise ReconcilerError(f"{folder / _CASE} is not a case of `history export`")
        parts = {name: _parsed(folder / file) for name, file in _PARTS.items()}
        case = convert({**document, **parts, "manifests": _text(folder / MANIFESTS)}, Case)
        case.state_records()
    except OSError as failure:
        raise ReconcilerError(f"{failure.filename} cannot be read: {failure.strerror}") from failure
    except ValidationError as failure:
        raise ReconcilerError(f"{folder} is not a case of this version: see `{place_of(failure)}`") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ReconcilerError(f"{folder} is not a case of this version: see `records`") from None
    return case


def _parsed(file: Path) -> Any:
    try:
        return json.loads(_text(file))
    except (ValueError, RecursionError):
        raise ReconcilerError(f"{file} is not JSON") from None


def _text(file: Path) -> str:
    with file.open("rb") as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ReconcilerError(f"{file} is larger than {_MOST_BYTES >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ReconcilerError(f"{file} is not text") from None


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


# --- the calls of the run ---

HELD_S = 24 * 3600  # longer than any run lives: an answer that never comes
_FOR_EVER_S = 3600  # a Retry-After that no step waits for
_MOST_S = 15  # the longest Retry-After for a step that was tried again; it waited longer for other reasons
_AT_ONCE_S = 1.0
_PASS: Mapping[str, Any] = {"action": "delay", "delay_s": 0}  # nothing happens to this call
_LIMITED = 429

CallEnd = Literal["done", "failed", "unknown", "not-landed", "open"]
RunEnd = Literal["done", "not-converged", "interrupted", "cut-off"]


@dataclass(slots=True)
class SentCall:
    """One call of the run. Mutable: later entries of the journal complete it.

    `sent`: its intent. `status`: of an answer without success; 0 for a success or no answer. `end`: at the
    end of the run. `answer`: "ok", "lost", or the status; "" while none was recorded. `landed`: the call took
    effect; None while nobody knows. `paused_s`: until the step was tried again; None: it was not.
    """

    sent: JournalEntry
    end: CallEnd = "open"
    status: int = 0
    answer: int | str = ""
    why: str = ""
    id: str = ""
    landed: bool | None = None
    ended_at: datetime | None = None
    paused_s: float | None = None


@dataclass(slots=True)
class RunCalls:
    """`entries`: the number that the run itself wrote. `waits`: by step, whether the awaited value came."""

    calls: list[SentCall] = field(default_factory=list)
    waits: dict[str, bool] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    end: RunEnd = "cut-off"
    entries: int = 0


def run_calls(entries: Sequence[tuple[str, JournalEntry]], *, settled_later: bool = True) -> RunCalls:
    """Read the entries of one run.

    `settled_later`: another run wrote the last settled entries of a run that was cut off. The journal does
    not say whether the run wrote them itself before it died.
    """
    found = RunCalls()
    own, later = _divided(entries, settled_later=settled_later)
    calls: dict[tuple[str, int], SentCall] = {}
    for entry in own:
        found.entries += 1
        _take(found, calls, entry)
    for entry in later:
        call = calls.get((entry.step, entry.attempt))
        if call is not None and entry.event is Event.SETTLED and not entry.data.get("absolute"):
            call.landed = entry.data.get("landed") is not False
    for call in found.calls:
        after = calls.get((call.sent.step, call.sent.attempt + 1))
        if after is not None and call.ended_at is not None:
            call.paused_s = (after.sent.at - call.ended_at).total_seconds()
    return found


def _divided(
    entries: Sequence[tuple[str, JournalEntry]], *, settled_later: bool
) -> tuple[list[JournalEntry], list[JournalEntry]]:
    finished, own, later = set[str](), list[JournalEntry](), list[JournalEntry]()
    for scope, entry in entries:
        (later if scope in finished else own).append(entry)
        if entry.event is Event.RUN_FINISHED:
            finished.add(scope)
    if not finished and settled_later:
        while own and own[-1].event is Event.SETTLED:
            later.insert(0, own.pop())
    return own, later


def _take(found: RunCalls, calls: dict[tuple[str, int], SentCall], entry: JournalEntry) -> None:
    data, key = entry.data, (entry.step, entry.attempt)
    call = calls.get(key)
    match entry.event:
        case Event.INTENT:
            calls[key] = SentCall(entry)
            found.calls.append(calls[key])
        case Event.RUN_FINISHED:
            found.outcomes = {**data.get("outcomes", {})}
            found.end = "done" if found.outcomes.keys() <= {"done"} else "not-converged"
            if data.get("interrupted"):
                found.end = "interrupted"
        case Event.DONE | Event.PENDING if data.get("reached") or "seen" in data:
            found.waits[entry.step] = bool(data.get("reached"))
        case Event.DONE | Event.FAILED | Event.UNKNOWN | Event.SETTLED if call is not None:
            _close(call, entry)


def _close(call: SentCall, entry: JournalEntry) -> None:
    data = entry.data
    call.ended_at = entry.at
    if entry.event is Event.DONE:
        call.end, call.landed, call.id = "done", True, data.get("id") or ""
        call.answer = "ok"
    elif entry.event is Event.SETTLED:
        call.landed = data.get("landed") is not False
        call.end = "done" if call.landed else "not-landed"
        call.id = data.get("id") or call.id
    else:
        call.end = "failed" if entry.event is Event.FAILED else "unknown"
        call.landed = False if entry.event is Event.FAILED else None
        call.status, call.why = data.get("status", 0), data.get("error", "")
        call.answer = call.status or "lost"


def trace_of(found: RunCalls) -> dict[str, Any]:
    """The trace that a replay must repeat. Ids of created objects are replaced by their addresses."""
    made = {call.id: str(call.sent.address) for call in found.calls if call.id}
    calls = [
        {
            "step": call.sent.step,
            "attempt": call.sent.attempt,
            "method": call.sent.data["method"],
            "path": _renamed(call.sent.data["path"], made),
            "answer": call.answer,
            "outcome": call.end,
        }
        for call in found.calls
    ]
    calls.sort(key=lambda call: (str(call["step"]), int(str(call["attempt"]))))
    return {"calls": calls, "waits": found.waits, "outcomes": dict(found.outcomes), "end": found.end}


def _renamed(path: str, made: Mapping[str, str]) -> str:
    return "/".join(f"{{{made[part]}}}" if part in made else part for part in path.split("/"))


def differences(expected: Mapping[str, Any], played: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences of two traces, in words."""
    want, have = _by_call(expected), _by_call(played)
    for key in [*want, *(key for key in have if key not in want)]:
        if want.get(key) != have.get(key):
            step, attempt = key
            yield (
                f"{step}, attempt {attempt}: {_in_words(want.get(key))} is expected, "
                f"and the replay has {_in_words(have.get(key))}"
            )
    for name in ("waits", "outcomes", "end"):
        if expected.get(name) != played.get(name):
            yield f"{name}: {expected.get(name)} is expected, and the replay has {played.get(name)}"


def _by_call(trace: Mapping[str, Any]) -> dict[tuple[str, int], Mapping[str, Any]]:
    calls: Iterable[Mapping[str, Any]] = trace.get("calls", ())
    return {(call["step"], call["attempt"]): call for call in calls}


def _in_words(call: Mapping[str, Any] | None) -> str:
    if call is None:
        return "no call"
    answer = f" (answered: {call['answer']})" if call["answer"] else ""
    return f"{call['method']} {call['path']} {call['outcome']}{answer}"


# --- the fault script ---


def guesses(calls: Sequence[SentCall]) -> list[int]:
    """The indexes of calls whose effect the journal does not tell."""
    return [
        index
        for index, call in enumerate(calls)
        if (call.end in ("unknown", "open") and call.landed is None)
        or (call.end == "not-landed" and call.sent.data["if_unknown"] == "repeat")
    ]


def script(calls: Sequence[SentCall], flipped: Collection[int] = ()) -> list[dict[str, Any]]:
    """One fault for each call in the order of sending, up to the last call that met one.

    `flipped`: the indexes of calls whose effect is guessed the other way round.
    """
    made = {call.id for call in calls if call.id}
    found = []
    for index, call in enumerate(calls):
        landed = bool(call.landed) != (index in flipped)
        met = _met(call, landed=landed)
        method, path = (call.sent.data[name] for name in ("method", "path"))
        found.append({"method": method, "path": _pattern(path, made), **(met or _PASS)})
    while found and found[-1].items() >= _PASS.items():
        found.pop()
    return found


def _met(call: SentCall, *, landed: bool) -> Mapping[str, Any] | None:
    if call.end == "open":
        return {"action": "delay", "delay_s": HELD_S, "before": not landed}
    if call.status == _LIMITED:
        wait_s = _FOR_EVER_S if call.paused_s is None else min(max(1, round(call.paused_s)), _MOST_S)
        return {"action": "rate_limited", "retry_after": wait_s}
    if call.status:
        body = {} if call.status < 300 else {"error": call.why}
        return {"action": "status", "status": call.status, "after": landed, "body": body}
    if call.end == "done" and not call.why:
        return None
    took_s = (call.ended_at - call.sent.at).total_seconds() if call.ended_at is not None else 0.0
    if landed and call.end != "done" and took_s > _AT_ONCE_S:
        return {"action": "delay", "delay_s": math.ceil(took_s) + 1}
    return {"action": "drop_after" if landed else "drop_before"}


def _pattern(path: str, made: Collection[str]) -> str:
    """`path` with `*` for each id that the run made, which nobody knows beforehand."""
    return "/".join("*" if part in made else glob.escape(part) for part in path.split("/"))

"""What is wrong after a case, judged from what the sandbox and the state show in the end. Pure."""

import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

from reconciler.core.wire import parse_time
from reconciler.sandbox.parts.secret import holds
from reconciler.services.machines.wire.machine import RUNNING
from reconciler.services.machines.wire.volume import GONE_STATES
from tests.cli.harness import MUTATIONS, Ran
from tests.reliability.kills import scenario
from tests.reliability.kills.boundaries import LATE

Kind = Literal["duplicate", "orphan", "unapproved delete", "manual unlock", "not converged", "broken promise"]
KINDS: tuple[Kind, ...] = (
    "duplicate",
    "orphan",
    "unapproved delete",
    "manual unlock",
    "not converged",
    "broken promise",
)
LOCKED = 5
SNAPSHOT_SERVES = timedelta(hours=1)  # so long one taken before a call serves when the call is tried again

_TRACEBACK = re.compile(r"^Traceback ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class Ending:
    """How things stand after a case.

    `before`, `after`: the sandbox's world; `log`: its requests since the template was made.
    `records`: what `state list` says. `owed`: of the last plan. `later`: requests of the last apply.
    `restarts`: whether machines are restarted as part of the apply.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    log: Sequence[Mapping[str, Any]]
    records: Sequence[Mapping[str, Any]]
    owed: Sequence[Mapping[str, Any]]
    later: Sequence[Mapping[str, Any]]
    restarts: bool = False


def judge_world(ending: Ending) -> list[Finding]:
    """Everything that the world, the log and the records say against the run."""
    return [
        *_duplicates(ending),
        *_orphans(ending),
        *_deletes(ending),
        *_differences(ending),
        *_snapshots(ending),
        *_restart(ending),
        *_power(ending),
        *_later_calls(ending),
    ]


def judge_process(what: str, ran: Ran | None, codes: Sequence[int]) -> list[Finding]:
    """`codes`: how it may end. None for one that did not end by itself."""
    if ran is None:
        return [Finding("broken promise", f"{what} did not end by itself")]
    told = f"{what} ended with {ran.code}: {(ran.err or ran.out).strip()[-600:]}"
    if _TRACEBACK.search(ran.err):
        return [Finding("broken promise", told)]
    if ran.code == LOCKED:
        return [Finding("manual unlock", told)]
    if ran.code not in codes:
        return [Finding("not converged", told)]
    return []


def judge_victim(ran: Ran | None, number: int, trace: Sequence[str]) -> list[Finding]:
    """KILL ends a process at once; after TERM or INT it ends by itself, with its code, and starts nothing."""
    late = [Finding("broken promise", line) for line in trace if line.startswith(LATE)]
    if number == signal.SIGKILL:
        return late
    if ran is not None and not _TRACEBACK.search(ran.err) and ran.code != 128 + number:
        told = f"after {signal.Signals(number).name} it ended with {ran.code}, not {128 + number}"
        return [*late, Finding("broken promise", f"{told}: {ran.err.strip()[-600:]}")]
    return [*late, *judge_process("the struck process", ran, [128 + number])]


def live_volumes(world: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {each["id"]: each for each in world["volumes"] if each["state"] not in GONE_STATES}


def live_clusters(world: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {each["id"]: each for each in world["clusters"] if each["status"] not in ("deleting", "deleted")}


def _live(world: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {**live_volumes(world), **live_clusters(world)}


def _named(ending: Ending, id: str) -> str:
    known = {each["id"]: each["name"] for world in (ending.before, ending.after) for each in _all(world)}
    return f"{known.get(id, '?')} ({id})"


def _all(world: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from world["volumes"]
    yield from world["clusters"]


def _duplicates(ending: Ending) -> Iterator[Finding]:
    for what, live, wanted in (
        ("volumes", live_volumes(ending.after), scenario.VOLUMES),
        ("clusters", live_clusters(ending.after), scenario.CLUSTERS),
    ):
        there = Counter(each["name"] for each in live.values())
        for name in sorted({*there, *wanted}):
            if there[name] > wanted.get(name, 0):
                yield Finding("duplicate", f"{there[name]} {what} `{name}`, not {wanted.get(name, 0)}")
            elif there[name] < wanted[name]:
                yield Finding("not converged", f"{there[name]} {what} `{name}`, not {wanted[name]}")


def _orphans(ending: Ending) -> Iterator[Finding]:
    """Objects that were made or adopted and that no record tracks; and records of what is not there."""
    live = _live(ending.after)
    tracked = Counter(record["id"] for record in ending.records if _has_data(record))
    for id in sorted(live.keys() - tracked.keys()):
        if live[id]["name"] not in scenario.OWNED_BY_OTHERS:
            yield Finding("orphan", f"{_named(ending, id)} is not recorded")
    for id in sorted(tracked.keys() - live.keys()):
        yield Finding("orphan", f"{_named(ending, id)} is recorded and not there")
    for id, times in tracked.items():
        if times > 1:
            yield Finding("orphan", f"{_named(ending, id)} is recorded under {times} addresses")
        if id in live and live[id]["name"] in scenario.OWNED_BY_OTHERS:
            yield Finding("orphan", f"{_named(ending, id)} belongs to others and is recorded")


def _has_data(record: Mapping[str, Any]) -> bool:
    """Whether the record is of something with an id of its own that holds data: no secret, no machine."""
    return not record["address"].startswith(("Secret/", "Machine/"))


def _deletes(ending: Ending) -> Iterator[Finding]:
    """By the world and by the log: an object may also be made and deleted within one case."""
    approved = {
        id for id, each in live_volumes(ending.before).items() if each["name"] == scenario.APPROVED_NAME
    }
    missing = _live(ending.before).keys() - _live(ending.after).keys()
    sent = {
        entry["path"].rpartition("/")[2]
        for entry in ending.log
        if entry["method"] == "DELETE" and entry["effect"]
    }
    for id in sorted((missing | sent) - approved):
        yield Finding("unapproved delete", f"{_named(ending, id)} is gone")


def _differences(ending: Ending) -> Iterator[Finding]:
    for each in live_volumes(ending.after).values():
        for field, value in scenario.FIELDS.get(each["name"], {}).items():
            if each[field] != value:
                told = f"volume `{each['name']}` has {field} {each[field]}, not {value}"
                yield Finding("not converged", told)
    secrets = {each["name"]: each["fingerprint"] for each in ending.after["secrets"]}
    for name, value in scenario.wanted_secrets(ending.after).items():
        if not holds(secrets.get(name, ""), value):
            yield Finding("not converged", f"secret `{name}` has another value or none")


def _snapshots(ending: Ending) -> Iterator[Finding]:
    """Each wanted snapshot exists once, and those before a dangerous call were finished before it."""
    ids = {each["name"]: each["id"] for each in ending.before["volumes"]}
    for name, reason in scenario.SNAPSHOTS.items():
        taken = [each for each in ending.after["snapshots"] if each["volume_id"] == ids[name]]
        finished = [parse_time(each["created_at"]) for each in taken]
        if not taken:
            yield Finding("broken promise", f"volume `{name}` has no snapshot, due {reason}")
        elif len(taken) > 1 and not _far_apart(finished):
            yield Finding("duplicate", f"{len(taken)} snapshots of `{name}`, due once {reason}")
        for entry in ending.log:
            if entry["effect"] and (entry["method"], entry["path"]) == _dangerous_call(name, ids[name]):
                at = parse_time(entry["at"])
                assert at is not None
                if not any(moment is not None and moment <= at for moment in finished):
                    told = f"{entry['method']} of `{name}` came before its snapshot was finished"
                    yield Finding("broken promise", told)


def _far_apart(moments: Sequence[datetime | None]) -> bool:
    """Whether each snapshot had served its time before the next: a slow machine makes a case so long."""
    known = sorted(moment for moment in moments if moment is not None)
    return len(known) == len(moments) and all(b - a >= SNAPSHOT_SERVES for a, b in pairwise(known))


def _dangerous_call(name: str, id: str) -> tuple[str, str]:
    path = f"/v1/apps/{scenario.APP}/volumes/{id}"
    return ("DELETE", path) if name == scenario.APPROVED_NAME else ("PUT", f"{path}/extend")


def _restart(ending: Ending) -> Iterator[Finding]:
    """What the extend asked for is done, or still owed."""
    owing = {owed["address"] for owed in ending.owed if owed["work"] == "restart"}
    if not ending.restarts:
        if scenario.OWES_A_RESTART not in owing:
            yield Finding("broken promise", f"the restart of {scenario.OWES_A_RESTART} is owed no more")
        return
    for address in sorted(owing):
        yield Finding("not converged", f"the restart of {address} is still owed")
    for machine in ending.after["machines"]:
        if machine["pending_restart"]:
            yield Finding("broken promise", f"machine {machine['id']} was not restarted")


def _power(ending: Ending) -> Iterator[Finding]:
    """Each machine is as its manifest says, because of the one call for it, and never got another one."""
    states = {
        each["id"]: RUNNING[0] if each["state"] in RUNNING else each["state"]
        for each in ending.after["machines"]
    }
    for id, (_, wanted, verb) in scenario.machines(extended=ending.restarts).items():
        if states.get(id) != wanted:
            yield Finding("not converged", f"machine {id} is {states.get(id)}, not {wanted}")
        sent = [entry for entry in ending.log if f"/machines/{id}/" in entry["path"]]
        for entry in sent:
            if entry["method"] in MUTATIONS and not entry["path"].endswith(f"/{verb}"):
                yield Finding("broken promise", f"machine {id} was sent {entry['path']}")
        changed = sum(entry["effect"] for entry in sent)
        if changed > 1:
            yield Finding("duplicate", f"{changed} calls changed machine {id}, due one {verb}")


def _later_calls(ending: Ending) -> Iterator[Finding]:
    for entry in ending.later:
        if entry["method"] in MUTATIONS:
            told = f"the last apply sent {entry['method']} {entry['path']}"
            yield Finding("not converged", told)

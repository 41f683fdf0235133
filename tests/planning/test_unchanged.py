"""What needs nothing is passed over without a decision, and the plan is the one that deciding leads to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from reconciler.core.diagnostics import UNKNOWN_OUTCOME, error
from reconciler.core.model import (
    DISMISSED,
    Address,
    Deletion,
    Ignore,
    Lifecycle,
    Obligation,
    Observation,
    Reference,
    Resource,
    StateRecord,
)
from reconciler.core.steps import Read
from reconciler.moves.compare import LEFT
from reconciler.planning.planner import Planner
from reconciler.services.machines.wire.volume import Snapshot, Volume
from tests.planning.worlds import LONG_AGO, NOW, World, converged, record, request, resource, worlds

DATA, LOGS, OTHER = (Address("Volume", name, "shop") for name in ("data", "logs", "other"))
SPEC = {"region": "ams", "size_gb": {"min": 5, "max": 20}, "snapshot_retention": 5, "machines_only": True}
FIELDS = {"region": "ams", "size_gb": 10, "snapshot_retention": 5}


@dataclass
class Parts:
    """A world to be disturbed: two volumes, recorded and as declared, of which one is `data`."""

    data: Resource = field(default_factory=lambda: resource(DATA, SPEC))
    known: StateRecord | None = field(
        default_factory=lambda: record(DATA, "vol_1", {"name": "data", **FIELDS, "machines_only": True})
    )
    live: Volume | None = field(default_factory=lambda: volume("vol_1", "data"))
    beside: list[Volume] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    records: list[StateRecord] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()

    def world(self) -> World:
        resources = [self.data, resource(LOGS, FIELDS), *self.resources]
        records = [record(LOGS, "vol_2", {"name": "logs", **FIELDS}), *self.records]
        records += [self.known] if self.known is not None else []
        volumes = [volume("vol_2", "logs"), *([self.live] if self.live is not None else []), *self.beside]
        shot = Snapshot(id="vs_1", created_at=LONG_AGO.isoformat(), status="created")
        return World(
            request(resources, records, **self.more),
            {"shop": volumes},
            snapshots=[shot],
            unreadable=self.unreadable,
        )

    def record(self, applied: dict[str, Any] | None = None, **more: Any) -> "Parts":
        assert self.known is not None
        self.known = replace(self.known, applied={**self.known.applied, **(applied or {})}, **more)
        return self

    def declare(self, **more: Any) -> "Parts":
        self.data = replace(self.data, **more)
        return self

    def show(self, **fields: Any) -> "Parts":
        assert self.live is not None
        self.live = self.live.model_copy(update=fields)
        return self

    def add(self, *others: Volume | StateRecord | Resource) -> "Parts":
        for each in others:
            if isinstance(each, Volume):
                self.beside.append(each)
            elif isinstance(each, StateRecord):
                self.records.append(each)
            else:
                self.resources.append(each)
        return self

    def set(self, **parts: Any) -> "Parts":
        for name, value in parts.items():
            setattr(self, name, value)
        return self


def volume(id: str, name: str, **more: Any) -> Volume:
    return Volume.model_validate({"id": id, "name": name, "state": "created", **FIELDS, **more})


def outcome(world: World, order: int = 0) -> tuple[Any, ...]:
    """All that comes of it: the plan, what lists show beside, what values are made of, and what was read."""
    reads = set()

    def answer(world: World, read: Read) -> Observation:
        reads.add(read)
        return answered(world, read)

    answered = World.answer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "answer", answer)
        planner = world.answered(order)
    found, live = planner.lookalikes.found, dict(planner.live)
    return planner.finish(world.fingerprints), found, live, planner.lookalikes.unread(), reads


def outcomes(world: World, order: int = 0) -> tuple[tuple[Any, ...], tuple[Any, ...], list[bool]]:
    """With what is passed over, and with everything decided about; and which answers were passed over."""
    passed = []
    asked = Planner._leaves_unchanged

    def noted(planner: Planner, read: Read, observation: Observation) -> bool:
        passed.append(asked(planner, read, observation))
        return passed[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Planner, "_leaves_unchanged", noted)
        short = outcome(world, order)
        patch.setattr(Planner, "_leaves_unchanged", lambda *_: False)
        return short, outcome(world, order), passed


def from_data(address: Address) -> Resource:
    return replace(resource(address, {"region": "ams"}), references=(Reference(DATA, ("spec",)),))


ELSEWHERE = Address("Volume", "other", "web")
OWED = Obligation("restart", "extended", "owed", NOW)
MOVED = Ignore("region", "moved", None, ("lifecycle",))
DELETE, AUTO, EXTEND = (
    Lifecycle(Deletion.DELETE),
    Lifecycle(restart="auto"),
    Lifecycle(snapshot_before=("extend",)),
)
UNKNOWN = error(UNKNOWN_OUTCOME, "what became of it?")
DISTURBANCES: dict[str, Callable[[Parts], Parts]] = {
    "no answer": lambda to: to.set(unreadable=frozenset({"/v1/apps/shop/volumes"})),
    "twice in the list": lambda to: to.add(volume("vol_1", "data", region="fra")),
    "not recorded": lambda to: to.set(known=None),
    "not in the list": lambda to: to.set(live=None),
    "another that looks the same": lambda to: to.add(volume("vol_9", "data")),
    "recorded twice": lambda to: to.add(record(OTHER, "vol_1", {"name": "data"})),
    "one object of two": lambda to: to.add(record(OTHER, "vol_1", FIELDS), resource(OTHER, FIELDS)),
    "a create beside it": lambda to: to.add(resource(OTHER, {"region": "ams"})),
    "one that left beside it": lambda to: to.add(
        record(OTHER, "vol_3", FIELDS, lifecycle=DELETE), volume("vol_3", "other")
    ),
    "not in focus": lambda to: to.set(more={"focus": {LOGS}}),
    "needed by a create": lambda to: to.add(from_data(ELSEWHERE)),
    "needed, and not in focus": lambda to: to.add(from_data(ELSEWHERE)).set(more={"focus": {ELSEWHERE}}),
    "undecided": lambda to: to.set(more={"undecided": {DATA: UNKNOWN}}),
    "adopts another": lambda to: to.declare(adopt_id="vol_7"),
    "an objective": lambda to: to.declare(objectives={"snapshot_max_age_h": 24}),
    "an ignore": lambda to: to.declare(ignores=(MOVED,)),
    "an ignored value, recorded": lambda to: to.declare(
        ignores=(replace(MOVED, field="snapshot_retention"),)
    ).show(snapshot_retention=7),
    "an ignore never recorded": lambda to: to.declare(ignores=(replace(MOVED, field="name"),)).set(
        known=record(DATA, "vol_1", {**FIELDS, "machines_only": True})
    ),
    "an ignore that is over": lambda to: to.declare(ignores=(replace(MOVED, until=date(2026, 1, 1)),)),
    "a restart owed": lambda to: (
        to.record(obligations=(OWED,), lifecycle=AUTO).declare(lifecycle=AUTO).show(attached_machine_id="m1")
    ),
    "another lifecycle": lambda to: to.declare(lifecycle=Lifecycle(timeout_s=60)),
    "protected before": lambda to: to.declare(lifecycle=DELETE),
    "another file": lambda to: to.declare(file="other.yaml"),
    "left before": lambda to: to.record({LEFT: True}),
    "came back before": lambda to: to.record({LEFT: False}),
    "dismissed beside it": lambda to: to.record({DISMISSED: ["vol_9"]}).add(volume("vol_9", "data")),
    "inferred": lambda to: to.record(inferred=True),
    "a snapshot taken before": lambda to: to.record({"snapshot": "vs_1"}, lifecycle=EXTEND).declare(
        lifecycle=EXTEND
    ),
    "still restoring": lambda to: to.show(state="restoring"),
    "destroyed": lambda to: to.show(state="destroyed"),
    "no state": lambda to: to.show(state=None),
    "a bad id in it": lambda to: to.show(attached_machine_id="../m"),
    "another value": lambda to: to.show(snapshot_retention=7),
    "another value, recorded": lambda to: to.show(snapshot_retention=7).record({"snapshot_retention": 7}),
    "another value in the record": lambda to: to.record({"snapshot_retention": 7}),
    "no value": lambda to: to.show(snapshot_retention=None),
    "no value in the record": lambda to: to.record({"snapshot_retention": None}),
    "no value anywhere": lambda to: to.show(size_gb=None).record({"size_gb": None}),
    "out of its range": lambda to: to.show(size_gb=30).record({"size_gb": 30}),
    "elsewhere in its range": lambda to: to.show(size_gb=11),
    "another value, only recorded": lambda to: to.record({"machines_only": False}),
}


@pytest.mark.parametrize("name", DISTURBANCES)
def test_what_may_need_something_is_decided_about(name: str) -> None:
    short, long, _ = outcomes(DISTURBANCES[name](Parts()).world())
    assert short == long


def test_what_is_as_declared_and_recorded_is_passed_over() -> None:
    short, long, passed = outcomes(Parts().world())
    assert passed == [True]
    assert short == long
    assert short[0].unchanged == 2


def test_an_incomplete_answer_leaves_nothing_certain() -> None:
    world = Parts().world()
    planner = Planner(world.request)
    (read,) = planner.reads()
    whole = world.answer(read)
    assert planner._leaves_unchanged(read, whole)
    assert not planner._leaves_unchanged(read, replace(whole, complete=False))


def test_neither_what_others_own_nor_what_is_gone_stands_in_the_way() -> None:
    theirs = record(Address("Volume", "data", "web"), "vol_9", {"name": "data", LEFT: True})
    gone, owned = volume("vol_8", "data", state="destroyed"), volume("vol_9", "data")
    short, long, passed = outcomes(Parts().add(theirs, gone, owned).world())
    assert sorted(passed) == [False, True]  # the list of `web` is read for the record alone
    assert short == long


def test_what_left_the_manifests_is_judged_beside_what_is_passed_over() -> None:
    left = record(Address("Volume", "old", "shop"), "vol_9", {"name": "old", "size_gb": 5})
    short, long, passed = outcomes(Parts().add(left, volume("vol_9", "old", size_gb=50)).world())
    assert passed == [True]
    assert short == long
    (kept,) = short[0].changes
    assert "`size_gb` changed: 5 -> 50" in kept.reason


@given(worlds())
def test_any_world_has_the_plan_that_deciding_leads_to(world: World) -> None:
    short, long, _ = outcomes(world)
    assert short == long


@given(converged())
def test_a_world_as_declared_has_the_plan_that_deciding_leads_to(world: World) -> None:
    short, long, passed = outcomes(world)
    assert short == long
    apps = {each.address.app for each in world.request.resources if each.address.kind == "Volume"}
    assert sum(passed) == len(apps)

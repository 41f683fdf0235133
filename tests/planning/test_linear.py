"""Twice as much of one app takes twice the work, in lines of Python that run: no clock is asked."""

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest

from reconciler.core.diagnostics import UNKNOWN_OUTCOME, error
from reconciler.core.garbage import collector_paused
from reconciler.core.model import Address, Deletion, Lifecycle, Resource
from reconciler.policies import find_manifest_kinds
from reconciler.policies.giving import Giving
from reconciler.policies.retention import RetentionPolicySpec, Selector
from reconciler.services.machines.wire.volume import Volume
from tests.planning.worlds import World, record, request, resource

SMALL = 30
FIELDS = {"region": "ams", "size_gb": 10, "snapshot_retention": 5}


def address(name: str, number: int, kind: str = "Volume") -> Address:
    return Address(kind, f"{name}-{number}", "shop")


def lines_run(work: Callable[[], object]) -> int:
    """Also each turn of a loop on one line."""
    counted = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal counted
        counted += event == "line"
        return trace

    before = sys.gettrace()
    with collector_paused():  # others may have hooks on it, whose lines would count
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)
    return counted


def assert_linear(work: Callable[[int], Callable[[], object]], small: int = SMALL) -> None:
    """From the small world to one of twice the size it grows as from there to four times the size."""
    work(4 * small)()  # what is made once, and what caches keep of each resource
    once, twice, fourfold = (lines_run(work(small * times)) for times in (1, 2, 4))
    each = (twice - once) / small
    more = (fourfold - twice) / (2 * small) - each
    assert more < max(0.03 * each, 4), f"{each:.0f} lines each, and {more:.0f} more each in a larger world"


def live(name: str, number: int, prefix: str = "vol") -> Volume:
    fields = {"id": f"{prefix}_{number}", "name": f"{name}-{number}", "state": "created", "zone": "a1"}
    return Volume.model_validate(fields | FIELDS)


def volumes(count: int, name: str = "data", fields: Mapping[str, Any] = FIELDS) -> list[Resource]:
    return [resource(address(name, number), fields) for number in range(count)]


def recorded(count: int, name: str = "data", **more: Any) -> list[Any]:
    return [
        record(address(name, n), f"vol_{n}", {"name": f"{name}-{n}", **FIELDS}, **more) for n in range(count)
    ]


def shown(count: int) -> dict[str, list[Volume]]:
    return {"shop": [live("data", number) for number in range(count)]}


def asks(count: int) -> dict[Address, Any]:
    return {address("new", n): error(UNKNOWN_OUTCOME, "nobody knows") for n in range(count)}


DELETES = Lifecycle(deletion=Deletion.DELETE)
SECRETS = {"value_from": {"env": "PW"}}
WORLDS: dict[str, Callable[[int], World]] = {
    "unchanged": lambda n: World(request(volumes(n), recorded(n)), shown(n)),
    "new": lambda n: World(request(volumes(n), [])),
    "adopted": lambda n: World(request(volumes(n), []), shown(n)),
    "new beside recorded": lambda n: World(request([*volumes(n), *volumes(n, "new")], recorded(n)), shown(n)),
    "changed": lambda n: World(request(volumes(n, fields=FIELDS | {"size_gb": 20}), recorded(n)), shown(n)),
    "missing": lambda n: World(request(volumes(n), recorded(n))),
    "deleted": lambda n: World(request([], recorded(n, lifecycle=DELETES)), shown(n)),
    "renamed": lambda n: World(request(volumes(n, "disk"), recorded(n)), shown(n)),
    "doubled": lambda n: World(
        request(volumes(n), recorded(n)),
        {"shop": [*shown(n)["shop"], *(live("data", number, "other") for number in range(n))]},
    ),
    "unknown outcomes": lambda n: World(request(volumes(n, "new"), [], undecided=asks(n)), shown(n)),
    "new secrets": lambda n: World(
        request([resource(address("S", number, "Secret"), SECRETS) for number in range(n)], [])
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_a_plan_of_one_app_is_linear(name: str) -> None:
    assert_linear(
        lambda count: WORLDS[name](count).plan, 60 if name == "renamed" else SMALL
    )  # see `MOST_COMPARED`


def test_policies_are_looked_up_for_each_resource_and_not_asked_one_by_one() -> None:
    def work(count: int) -> Callable[[], object]:
        policies, wanted = [], []
        for number in range(count):
            labels = {"env": "prod", "tier": f"t{number}"}
            spec = RetentionPolicySpec(selector=Selector(labels=labels), snapshot_retention=9)
            policies.append(Resource(Address("RetentionPolicy", f"p{number}"), spec, Lifecycle(), "", {}))
            wanted.append(resource(address("data", number), FIELDS, labels=labels))

        def give() -> None:
            giving = Giving(policies, find_manifest_kinds())
            assert all(len(giving.given(each)) == 1 for each in wanted)

        return give

    assert_linear(work)

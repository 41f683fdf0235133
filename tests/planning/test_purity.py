"""Planning is pure: what it needs of files is looked up before, and given to it as data."""

import builtins
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from reconciler.core.model import Action, Address
from reconciler.moves.compare import Elsewhere
from reconciler.services.machines.wire.volume import Volume
from tests.planning.worlds import World, record, request, resource

OLD, ELSEWHERE, NEW = (Address("Volume", name, "shop") for name in ("data", "store", "files"))


def renamed(*left: Address, elsewhere: Elsewhere) -> World:
    """`NEW` came; the records of `left` have no manifest among those given."""
    fields = {"region": "ams", "size_gb": 10}
    records = [record(each, f"vol_{each.name}", {"name": each.name, **fields}) for each in left]
    live = [Volume(id=each.id, name=each.address.name, state="created", **fields) for each in records]
    return World(request([resource(NEW, fields)], records, elsewhere=elsewhere), {"shop": live})


@contextmanager
def closed_files() -> Iterator[None]:
    """Whatever opens or looks for a file fails the test."""

    def refuse(*given: Any, **named: Any) -> NoReturn:
        raise AssertionError(f"planning looks at the file system: {given}")

    doors = [(builtins, "open"), (io, "open"), *((os, name) for name in ("open", "stat", "lstat", "scandir"))]
    with pytest.MonkeyPatch.context() as patch:
        for module, name in doors:
            patch.setattr(module, name, refuse)
        yield


def test_a_plan_of_a_rename_looks_at_no_file() -> None:
    entry = "`Moved/m` in moved.yaml"
    world = renamed(OLD, elsewhere=Elsewhere(moved={OLD: entry}))
    with closed_files():
        plan = world.plan()
    assert {change.address: change.action for change in plan.changes} == {
        OLD: Action.REFUSED,
        NEW: Action.REFUSED,
    }
    (problem,) = plan.diagnostics
    assert (problem.code, problem.help) == (
        "renamed",
        f"{entry} says where {OLD} moved: pass that file, too",
    )


@pytest.mark.parametrize("gone", [True, False])
def test_what_other_files_declare_is_known_without_them(gone: bool) -> None:
    elsewhere = Elsewhere(frozenset({ELSEWHERE}), frozenset({ELSEWHERE} if gone else ()))
    world = renamed(ELSEWHERE, elsewhere=elsewhere)
    with closed_files():
        plan = world.plan()
    assert [each.code for each in plan.diagnostics] == (["renamed"] if gone else [])
    assert [step.call.method for step in plan.steps] == ([] if gone else ["POST"])


def test_a_look_at_a_file_is_noticed() -> None:
    with closed_files(), pytest.raises(AssertionError, match="planning looks at the file system"):
        Path("moved.yaml").read_text(encoding="utf-8")

"""Saved plans: what is read is what was written, whoever wrote it, or one clear error."""

import copy
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.errors import ReconcilerError
from reconciler.planning.graph import plan_graph
from reconciler.planning.reviewed import as_reviewed
from reconciler.planning.saved import dump_plan, load_saved
from reconciler.reports.formats.text import render_plan
from tests.planning.plans import plan_of

# It has references, a secret, a template in a path, a wait, an obligation, diagnostics and an input.
RICH = (
    "kinds/secret/a_template_over_a_new_cluster_waits_for_it",
    "kinds/cluster/restore_from_a_cluster_of_the_manifests",
    "kinds/volume/grow_and_change_retention",
    "kinds/volume/shrink_is_refused_at_its_place",
    "planning/owed/a_restart_is_shown_until_it_is_done",
    "kinds/secret/programs_that_the_settings_do_not_name_warn",
)


def written(case: str) -> bytes:
    return dump_plan(plan_of(case))


def read(text: bytes) -> Any:
    return load_saved(text).plan


@pytest.mark.parametrize("case", RICH)
def test_writing_what_was_read_gives_the_same_bytes(case: str) -> None:
    text = written(case)
    assert dump_plan(read(text)) == text


def test_references_come_back_as_references() -> None:
    plan = read(written(RICH[0]))
    secret = plan.steps[0].call.body
    assert secret == plan_of(RICH[0]).steps[0].call.body
    assert str(plan.steps[1].wait.read.path) == "/v1/postgres/${PostgresCluster/orders:id}"


def test_the_addresses_of_providers_come_back() -> None:
    plan = plan_of("kinds/extension/provision")
    assert plan.providers == {"acme": "https://acme.example"}
    assert read(dump_plan(plan)) == plan


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"{", b"null", b"[]", b"{}", b'{"format": "other-1"}'])
def test_a_file_that_is_no_plan_is_refused(text: bytes) -> None:
    with pytest.raises(ReconcilerError, match="plan file is not") as refused:
        read(text)
    assert "reconcile plan" in refused.value.help


@pytest.mark.parametrize("number", range(1, 8))
def test_a_plan_of_an_older_format_is_refused_by_name(number: int) -> None:
    document = {**json.loads(written(RICH[0])), "format": f"reconciler-plan-{number}"}
    with pytest.raises(ReconcilerError, match=f"it has the format reconciler-plan-{number}") as refused:
        read(json.dumps(document).encode())
    assert "reconcile plan --out" in refused.value.help


def steps_that_wait(*after: Sequence[str]) -> bytes:
    document = json.loads(written(RICH[0]))
    for step, ids in zip(document["plan"]["steps"], after, strict=False):
        step["after"] = [document["plan"]["steps"][int(id)]["id"] if id.isdigit() else id for id in ids]
    return json.dumps(document).encode()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "deep": lambda: b'{"format": "reconciler-plan-9", "plan": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "60 MB": lambda: b'{"format": "reconciler-plan-9", "plan": "' + b"x" * 60_000_000 + b'"}',
    "NUL": lambda: written(RICH[0]).replace(b"orders", b"\0"),
    "UTF-16": lambda: written(RICH[0]).decode().encode("utf-16"),
    "waits for a step that is not there": lambda: steps_that_wait(["gone"]),
    "waits for itself": lambda: steps_that_wait(["0"]),
    "two that wait for each other": lambda: steps_that_wait(["1"], ["0"]),
    "a secret whose parts are none": lambda: re.sub(
        rb'("env",\s*"PG_PASSWORD",\s*)\[\]', rb"\1null", written(RICH[0])
    ),
    "a reference with too many parts": lambda: written(RICH[0]).replace(
        b'"$output": [', b'"$output": [1, 2, 3, '
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_error(name: str) -> None:
    text = HOSTILE[name]()
    assert text != written(RICH[0])
    with pytest.raises(ReconcilerError, match=r"not JSON|damaged at"):
        read(text)


STRANGE: tuple[Any, ...] = (None, True, -1, 1e400, "", "x", "\0", "$" * 99, [], {}, [[]], {"": []}, ["a"] * 3)


@given(st.data())
def test_whatever_is_read_can_be_compared_and_shown(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(RICH))
    document = json.loads(written(case))
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(list(places(document["plan"]))))
        holder[key] = copy.deepcopy(data.draw(st.sampled_from(STRANGE)))
    try:
        plan = read(json.dumps(document).encode())
    except ReconcilerError:
        return
    as_reviewed(plan, plan_of(case), {}, {})
    as_reviewed(plan_of(case), plan, {}, {})
    plan_graph(plan)
    render_plan(plan)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def test_what_is_read_may_be_damaged() -> None:
    document = json.loads(written(RICH[2]))
    document["plan"]["steps"][0]["call"]["method"] = "BREW"
    with pytest.raises(ReconcilerError, match=r"damaged at `steps\.0\.call\.method`"):
        load_saved(json.dumps(document).encode())


def test_the_place_of_damage_is_a_place_in_the_file() -> None:
    """One of several forms stands there: how they are called in the program is not said."""
    document = json.loads(written(RICH[2]))
    document["plan"]["steps"][0]["recovery"]["how"] = "hope"
    with pytest.raises(ReconcilerError, match=r"damaged at `steps\.0\.recovery\.how`"):
        load_saved(json.dumps(document).encode())


@pytest.mark.parametrize(
    "name", ["id", "context", "changes", "steps", "expectations", "bindings", "owed", "diagnostics"]
)
@pytest.mark.parametrize("damage", ["missing", [[]]])
def test_a_damaged_part_is_refused_and_named(name: str, damage: Any) -> None:
    document = json.loads(written(RICH[2]))
    if damage == "missing":
        del document["plan"][name]
    else:
        document["plan"][name] = damage
    with pytest.raises(ReconcilerError, match=name):
        load_saved(json.dumps(document).encode())

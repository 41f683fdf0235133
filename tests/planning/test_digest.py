"""The digest of a plan: of all that it does, and of nothing else."""

import copy
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.core.context import Context
from reconciler.core.diagnostics import warning
from reconciler.core.model import Address, Impact, Owed
from reconciler.core.saved import Digest
from reconciler.core.steps import Call, Loosened, OutputRef, Plan, SecretRef, Step, StepEffect, Template
from reconciler.planning.digest import parse_plan, plan_digest, plan_json
from tests.planning.plans import plan_of

RICH = (
    "kinds/secret/a_template_over_a_new_cluster_waits_for_it",
    "kinds/cluster/restore_from_a_cluster_of_the_manifests",
    "kinds/volume/grow_and_change_retention",
    "kinds/extension/provision",
)
# What people review: all else two plans that do the same may differ in, or it is only words.
OBJECTIVE = Loosened(Address("Volume", "data", "shop"), "snapshot_max_age_h", 24, 48)
SIGNED_PARTS = {
    *(("context", name) for name in ("environment", "platform", "lineage")),
    *(("manifests", name) for name in ("paths", "ref", "targets")),
    *(("changes", name) for name in ("address", "action", "also", "id", "impact")),
    *(("changes", "fields", name) for name in ("path", "before", "after")),
    *(("steps", "call", name) for name in ("method", "path", "body", "service")),
    *(("steps", "for_each", name) for name in ("pattern", "allowed", "never", "ignored")),
    *(("bindings", "lifecycle", name) for name in ("deletion", "snapshot_before", "restart")),
    *((*part, "read", "service") for part in (("steps", "wait"), ("expectations",))),
    ("providers",),
    ("loosened",),
    ("steps", "address"),
    ("moves",),
    ("unread",),
}


# Values of every kind that a body may hold, and one with nothing to mark in it.
BODIES: tuple[Mapping[str, Any] | None, ...] = (
    {"size_gb": 20, "name": "dätä", "tags": ["b", "a"], "more": {"z": None, "a": [1.5, {"b": True}]}},
    {"password": SecretRef("template", parts=("postgres://", OutputRef("PostgresCluster/-/db", "host")))},
    MappingProxyType(
        {"path": Template(("/v1/", OutputRef("run", "began_at", or_kept=True))), "of": ("a", ("b",))}
    ),
    {"machines": [{"id": OutputRef("Volume/a/data#create", "id")}, {"id": "m1"}], "empty": {}, "none": ()},
    None,
)
# What people signed must stay valid: it is what the digest of such a plan always was.
SIGNED = "5bbfee8f6d9557f8ec0919f4c07a9d35092ee2cb4c7ccaa564c469ef483fd93f"


def test_what_people_signed_stays_valid() -> None:
    address = Address("Volume", "data", "shop")
    steps = tuple(
        Step(f"{address}#{at}", address, Call("PUT", "/v1/x", body), effect=StepEffect(body or {}))
        for at, body in enumerate(BODIES)
    )
    about = Context(
        "prod", "https://platform.example", "", "lineage", "", False, "1", datetime(2026, 1, 31, tzinfo=UTC)
    )
    plan = Plan("plan", about, (), steps, (), (), (), ())
    assert plan_digest(plan) == SIGNED
    assert plan_digest(parse_plan(plan_json(plan))) == SIGNED


def test_it_is_a_sha_256_in_lower_case() -> None:
    assert set(plan_digest(plan_of(RICH[0]))) <= set("0123456789abcdef")
    assert len(plan_digest(plan_of(RICH[0]))) == 64


@pytest.mark.parametrize(
    "other",
    [
        lambda plan: replace(plan, id="another"),
        lambda plan: replace(
            plan,
            context=replace(
                plan.context,
                at=plan.context.at + timedelta(days=3),
                revision="f" * 40,
                dirty=True,
                version="9.9",
                state="sqlite:elsewhere.db",
            ),
        ),
        lambda plan: replace(plan, diagnostics=(warning("a", "other words"),)),
        lambda plan: replace(plan, changes=tuple(replace(each, reason="so") for each in plan.changes)),
        lambda plan: replace(plan, steps=tuple(replace(each, note="so") for each in plan.steps)),
        lambda plan: replace(plan, owed=(Owed(Address("Volume", "a", "b"), "restart", "so", "owed"),)),
        lambda plan: replace(plan, manifests=replace(plan.manifests, digest=Digest(lambda: "other"))),
        lambda plan: replace(
            plan,
            expectations=(),
            bindings=tuple(replace(each, source="another.yaml") for each in plan.bindings),
            inputs=(),
        ),
        lambda plan: replace(plan, steps=tuple(replace(each, id=f"{each.id}x") for each in plan.steps)),
    ],
)
@pytest.mark.parametrize("case", RICH)
def test_a_plan_that_does_the_same_has_the_same(case: str, other: Callable[[Plan], Plan]) -> None:
    plan = plan_of(case)
    assert other(plan) != plan
    assert plan_digest(other(plan)) == plan_digest(plan)


@given(st.data())
def test_any_other_value_makes_another(data: st.DataObject) -> None:
    plan = replace(plan_of(data.draw(st.sampled_from(RICH))), loosened=(OBJECTIVE,))
    document = copy.deepcopy(plan_json(plan))
    holder, key = data.draw(st.sampled_from(list(_leaves(document))))
    holder[key] = _another(holder[key])
    try:
        changed = parse_plan(document)
    except ValueError:  # a word that no plan can have
        return
    assert changed == plan or plan_digest(changed) != plan_digest(plan)


@pytest.mark.parametrize("case", RICH)
def test_the_order_of_an_addresss_calls_counts(case: str) -> None:
    plan = plan_of(case)
    turned = replace(plan, steps=plan.steps[::-1])
    one_address = len({each.address for each in plan.steps}) == 1
    assert (plan_digest(turned) != plan_digest(plan)) == (one_address and turned != plan)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Every place of a text, number, boolean or null that is signed."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        deeper = (*path, key) if isinstance(key, str) else path
        if isinstance(item, dict | list):
            yield from _leaves(item, deeper)
        elif any(deeper[: len(part)] == part for part in SIGNED_PARTS) and key != "or_kept":  # for records
            yield value, key


def _another(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case None:
            return "x"
    return f"{value}x"


@pytest.mark.parametrize("case", RICH)
def test_a_graver_impact_is_part_of_it(case: str) -> None:
    plan = plan_of(case)
    graver = replace(plan, changes=tuple(replace(each, impact=Impact.DOWNTIME) for each in plan.changes))
    assert plan_digest(graver) != plan_digest(plan)
    assert plan_digest(parse_plan(plan_json(graver))) == plan_digest(graver)

"""The schema of `plan -o json`: plans are as it says (each of a case file, too), and its copy is current."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.diagnostics import error
from reconciler.core.model import Action, Address
from reconciler.core.steps import Call, ForEach, IfOwed, Move, OutputRef, Step, UnlessRecorded
from reconciler.reports.formats.json import FORMAT
from reconciler.reports.report import ApplyReport, Failure, PlanReport
from reconciler.reports.schema import plan_schema
from reconciler.services.registry import Budget, Services, rate_key
from tests.docs.pages import ROOT
from tests.reports import plans
from tests.reports.reports import forecast_of, rehearsal_of
from tests.reports.schemas import PLAN, Schema
from tests.services.script import platform, reply

DATA = Address("Volume", "data", "shop")
RARE = replace(
    plans.EMPTY,
    steps=(
        Step("a", DATA, Call("PUT", "/a", service="pg"), guard=IfOwed("m_1"), lane="one"),
        Step("b", DATA, Call("PUT", "/b"), guard=UnlessRecorded("value")),
        Step("c", DATA, Call("PUT", "/c"), for_each=ForEach(OutputRef("a", "config"), ".*", "kept ")),
    ),
    outside=2,
    providers={"pg": "https://pg.example"},
    moves=(Move(DATA, DATA._replace(name="main"), "vol_1", 1),),
    diagnostics=(replace(error("a", "b", advice=(command("plan"),)), addresses=("Volume/shop/data",)),),
)


def document(plan: Any) -> Any:
    return json.loads(FORMAT.render(PlanReport(plan=plan, diagnostics=plan.diagnostics)))


@pytest.mark.parametrize("plan", [plans.PLAN, plans.EMPTY, RARE], ids=["all", "none", "rare"])
def test_a_plan_is_as_the_schema_says(plan: Any) -> None:
    assert PLAN.problems(document(plan)) == []


def test_a_rehearsal_and_a_forecast_are_as_the_schema_says() -> None:
    report = PlanReport(plan=plans.PLAN, rehearsal=rehearsal_of("a"), forecast=forecast_of("b"))
    found = json.loads(FORMAT.render(report))
    assert {"rehearsal", "forecast"} < set(found)
    assert PLAN.problems(found) == []


def test_a_budget_is_there_where_limits_hold() -> None:
    limited, unlimited = Budget(), Budget()
    client, _ = platform(reply(), rate_limit=1.0)
    services = Services({client.name: client})
    limited.add(services, [rate_key(services, client.name, "GET", "/v1/apps/shop/volumes")] * 10)
    found = json.loads(FORMAT.render(PlanReport(plan=plans.PLAN, budget=limited)))
    assert found["budget"] == {"requests": 10, "limited_s": 7.0}
    assert PLAN.problems(found) == []
    assert "budget" not in json.loads(FORMAT.render(PlanReport(plan=plans.PLAN, budget=unlimited)))
    applied = ApplyReport(plan=plans.PLAN, budget=limited)
    assert json.loads(FORMAT.render(applied))["budget"] == found["budget"]


def test_a_plan_that_failed_has_diagnostics_alone() -> None:
    assert PLAN.problems(json.loads(FORMAT.render(Failure(message="no", help="mend it")))) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["changes", 0, "action"], "explode"),
        (["changes", 0, "unheard_of"], 1),
        (["steps", 0, "method"], "BREW"),
        (["steps", 0, "wait", "until"], 7),
        (["context", "dirty"], "yes"),
        (["summary", "create"], -1),
        (["format_version"], "2"),
        (["diagnostics", 0, "line"], "7"),
    ],
)
def test_the_schema_refuses_what_is_no_plan(path: list[Any], value: Any) -> None:
    found = document(plans.PLAN)
    *way, last = path
    part = found
    for each in way:
        part = part[each]
    part[last] = value
    assert PLAN.problems(found)


@pytest.mark.parametrize("name", ["context", "steps", "owed", "summary", "diagnostics", "format_version"])
def test_a_plan_lacks_nothing(name: str) -> None:
    found = document(plans.PLAN)
    del found[name]
    assert PLAN.problems(found)


def test_later_versions_may_say_more() -> None:
    assert Schema(plan_schema()).problems(document(plans.PLAN) | {"weather": {}}) == []


def test_every_action_of_a_change_has_its_count() -> None:
    assert set(plan_schema()["$defs"]["SummaryJson"]["properties"]) == {
        *(each.value for each in Action),
        "waits",
    }


def test_the_published_schema_is_the_current_one() -> None:
    """Write it anew: `reconcile schema plan --out docs/plan.schema.json`."""
    published = Path(ROOT / "docs/plan.schema.json").read_text(encoding="utf-8")
    assert json.loads(published) == json.loads(json.dumps(plan_schema()))

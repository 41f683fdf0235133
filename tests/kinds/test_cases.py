"""Every case file leads to the plan that it expects. See `case.py` for what a case file holds."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.planning.digest import plan_digest
from reconciler.planning.saved import dump_plan, load_saved
from reconciler.reports.diagnostics import render
from reconciler.reports.formats.json import FORMAT
from reconciler.reports.formats.text import render_drift, render_plan
from reconciler.reports.report import DriftReport, PlanReport
from tests.kinds.case import (
    Played,
    case_name,
    differences,
    find_cases,
    never_read,
    play,
    read_case,
    secret_values,
)
from tests.reports.schemas import PLAN

Case = tuple[Mapping[str, Any], Played]


@pytest.fixture(scope="module", params=find_cases(), ids=case_name)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A case file and what came of it: played once for all tests."""
    read = read_case(request.param)
    return read, play(read, tmp_path_factory.mktemp("case"))


def test_the_plan_is_what_the_case_expects(case: Case) -> None:
    read, played = case
    assert played.platform.unexpected == []
    assert never_read(read, played) == []
    difference = differences(read["expect"], played.document())
    if difference:
        pytest.fail(difference, pytrace=False)


def test_no_rendering_of_a_case_holds_a_secret(case: Case) -> None:
    read, played = case
    lines = read["manifests"].splitlines()
    text = repr(played.document()) + render(played.diagnostics, lambda file, line: lines[line - 1])
    if played.plan is not None:
        text += render_plan(played.plan) + render_drift(DriftReport(plan=played.plan))
        text += repr(played.plan) + dump_plan(played.plan).decode()
    assert [value for value in secret_values(read) if value and value in text] == []


def test_a_saved_plan_of_a_case_comes_back_equal(case: Case) -> None:
    plan = case[1].plan
    if plan is not None:
        again = load_saved(dump_plan(plan)).plan
        assert (again, plan_digest(again)) == (plan, plan_digest(plan))


def test_the_json_of_a_case_is_as_its_schema_says(case: Case) -> None:
    read, played = case
    if played.plan is None or read.get("verb") == "drift":
        return
    report = PlanReport(plan=played.plan, diagnostics=played.diagnostics)
    assert PLAN.problems(json.loads(FORMAT.render(report))) == []


def test_every_step_of_a_case_belongs_to_a_change_and_follows_steps_before_it(case: Case) -> None:
    plan = case[1].plan
    if plan is None:
        return
    addresses = {change.address for change in plan.changes}
    earlier: set[str] = set()
    for step in plan.steps:
        assert step.address in addresses
        assert step.id not in earlier
        earlier.add(step.id)
    for step in plan.steps:
        assert set(step.after) < earlier


VOLUME = """\
apiVersion: reconciler/v1
kind: Volume
metadata: {name: data, app: shop}
spec: {size_gb: 5}
"""


@pytest.mark.parametrize(
    ("live", "why"),
    [
        ([{"name": "data"}], "unreadable: cannot read `Volume/shop/data`: the answer to GET "),
        ([{"id": "vol_1", "size_gb": 10}], "volume-shrink: volume `data` cannot shrink from 10 GB to 5 GB"),
    ],
)
def test_a_case_that_fails_says_why_its_change_was_refused(live: object, why: str, tmp_path: Path) -> None:
    case = {
        "manifests": VOLUME,
        "records": {"Volume/shop/data": {"id": "vol_1"}},
        "live": {"/v1/apps/shop/volumes": live},
    }
    assert why in differences({"changes": []}, play(case, tmp_path).document())

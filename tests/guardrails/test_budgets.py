"""Budgets over time: what counts, what is refused before the first call, and what people may sign."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.approvals.rules import Authority, Said
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import Refused
from reconciler.execution.decisions import MADE, remember
from reconciler.guardrails.limit import Limit
from reconciler.planning.declared import Desired
from reconciler.project.apply import apply
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.project.run import Applied
from tests.approvals.conftest import ana, keys
from tests.approvals.people import ENV, Person, signers
from tests.execution.conftest import stage
from tests.execution.stage import Stage, loaded, outcomes, volume

__all__ = ["ana", "keys", "stage"]

GONE = "lifecycle: {deletion: delete, snapshot_before: []}\n"
HOUR = 3600


def budget(name: str = "a-day", window: str = "24h", environment: str = "", **most: int) -> Limit:
    spec: dict[str, Any] = {"window": window, "most": most}
    spec |= {"environment": environment} if environment else {}
    return Limit("Budget", name, json.dumps(spec), "guardrails/limits.yaml:4:12")


def project(stage: Stage, *budgets: Limit, people: Sequence[Person] = ()) -> Project:
    authority = Authority(Said(budgets, (signers(person.line() for person in people),)))
    return replace(stage.project(), authority=authority, variables=ENV)


async def aged(stage: Stage) -> Stage:
    """A state that was made a month ago."""
    long_ago = (stage.time.now() - timedelta(days=31)).isoformat()
    await remember(stage.store, stage.project().actor(), MADE, lambda known: {"at": long_ago})
    return stage


async def applied(at: Project, stage: Stage, manifests: str, **given: Any) -> Applied:
    desired = Desired(loaded(stage, manifests))
    deletes = [*map(str, (await make_plan(at, desired)).deletes)]
    return await apply(at, desired, approve=lambda plan: True, approved_deletes=deletes, **given)


async def refused(at: Project, stage: Stage, manifests: str) -> list[Diagnostic]:
    sent = len(stage.line.mutations)
    with pytest.raises(Refused) as found:
        await applied(at, stage, manifests)
    assert len(stage.line.mutations) == sent
    return [each for each in found.value.diagnostics if each.severity == "error"]


def volumes(*names: str, size_gb: int = 10, rest: str = GONE) -> str:
    return "".join(volume(name, f"region: ams, size_gb: {size_gb}", rest) for name in names)


async def test_small_runs_together_do_not_do_what_one_big_run_may_not(stage: Stage) -> None:
    at = project(await aged(stage), budget(deletes=1))
    await applied(at, stage, volumes("a", "b", "c"))
    (problem,) = await refused(at, stage, volumes("a"))
    assert problem.code == "over-budget"
    assert problem.message == ("`Budget/a-day` allows `deletes: 1` in 24h: 0 used, and this plan needs 2")
    assert problem.help.startswith("split the plan: it alone needs more")
    await applied(at, stage, volumes("a", "b"))
    await stage.time.sleep(HOUR)
    (problem,) = await refused(at, stage, volumes("a"))
    assert problem.addresses == ("Volume/shop/b",)
    assert problem.message == "`Budget/a-day` allows `deletes: 1` in 24h: 1 used, and this plan needs 1"
    assert "Volume/shop/c" in problem.notes[0]
    assert problem.help.startswith("enough is free again at 2026-01-02 00:")
    await stage.time.sleep(23 * HOUR)
    assert set(outcomes(await applied(at, stage, volumes("a"))).values()) == {"done"}

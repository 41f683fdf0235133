"""Reads that a platform does not answer: one diagnostic for each cause, and an end in time."""

from collections import Counter

import anyio
import pytest

from reconciler.core.errors import Lost, Refused
from reconciler.core.model import Action
from reconciler.core.steps import Plan
from reconciler.drift.find import find_drift
from reconciler.planning.declared import Desired
from reconciler.project.apply import PlanRefused
from tests.execution.far import ADDRESS, Far, add_apps, applied, of_apps
from tests.execution.stage import Stage, loaded, outcomes, volume


@pytest.mark.parametrize("down", [503, 500, Lost("cannot connect: refused")], ids=str)
async def test_an_outage_is_one_diagnostic_and_ends_the_run_early(shared: Stage, down: int | Lost) -> None:
    add_apps(shared, 40)
    far = Far(shared, rate_limit=None)
    far.down = down
    with pytest.raises(Refused) as refused:
        await applied(shared, of_apps(40, 5))
    (problem,) = refused.value.diagnostics
    assert problem.code == "platform-down"
    assert (str(down) in problem.message, "40 reads" in problem.message) == (True, True)
    assert len(problem.addresses) == 200
    assert shared.time.elapsed_s <= 20
    assert isinstance(down, int) or ADDRESS in problem.message


@pytest.mark.parametrize("apps", [1, 40])
@pytest.mark.parametrize("rate_limit", [None, 1.0])
@pytest.mark.parametrize(("status", "asked"), [(503, "120"), (503, "2"), (429, "120"), (429, "2"), (429, "")])
async def test_a_platform_that_asks_every_read_to_wait_is_one_diagnostic(
    shared: Stage, apps: int, rate_limit: float | None, status: int, asked: str
) -> None:
    add_apps(shared, 40)
    far = Far(shared, rate_limit=rate_limit)
    far.down, far.asks = status, {"retry-after": asked} if asked else {}
    with pytest.raises(Refused) as refused:
        await applied(shared, of_apps(apps, 5))
    assert not isinstance(refused.value, PlanRefused)
    (problem,) = refused.value.diagnostics
    assert problem.code == "platform-down"
    assert str(status) in problem.message
    assert f"of {apps * 5} objects" in problem.message
    assert len(problem.addresses) == apps * 5
    assert shared.time.elapsed_s <= 30


@pytest.mark.parametrize("asked", [2, 9])
@pytest.mark.parametrize("status", [429, 503])
async def test_a_short_pause_that_all_reads_must_make_is_made(shared: Stage, asked: int, status: int) -> None:
    add_apps(shared, 40)
    far = Far(shared, rate_limit=None)
    far.down, far.asks = status, {"retry-after": f"{asked}"}

    async def recover() -> None:
        await shared.time.sleep(8.5)
        far.down = 0

    async with anyio.create_task_group() as group:
        group.start_soon(recover)
        found = await applied(shared, of_apps(40, 1))
    assert Counter(outcomes(found).values()) == {"done": 40}


async def test_one_app_that_fails_does_not_make_the_platform_down(shared: Stage) -> None:
    """The other's reads are answered: only what concerns the one is refused."""
    add_apps(shared, 1)
    Far(shared, rate_limit=None)
    shared.fault(method="GET", path="/v1/apps/app0/volumes", action="status", status=503, times=None)
    with pytest.raises(PlanRefused) as refused:
        await applied(shared, of_apps(1, 1) + volume())
    assert [item.code for item in refused.value.diagnostics] == ["unreadable"]


async def test_an_outage_counts_what_had_failed_before_it_was_known(shared: Stage) -> None:
    add_apps(shared, 40)
    far = Far(shared, rate_limit=None)
    far.down = 503
    far.given_up = [f"/v1/apps/app{app}/volumes" for app in range(7)]
    with pytest.raises(Refused) as refused:
        await applied(shared, of_apps(40, 5))
    (problem,) = refused.value.diagnostics
    assert "40 reads of 200 objects failed" in problem.message
    assert len(problem.addresses) == 200


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ({"action": "status", "status": 503}, "the platform answers 503 to 2 of 5 reads"),
        ({"action": "drop_before"}, "the platform at platform.example:443 gives no answer to 2 of 5 reads"),
    ],
    ids=["503", "cut"],
)
async def test_a_partial_outage_has_a_diagnostic_a_cause(
    shared: Stage, fault: dict[str, object], cause: str
) -> None:
    add_apps(shared, 4)
    Far(shared, rate_limit=None)
    for app in (1, 2):
        shared.fault(method="GET", path=f"/v1/apps/app{app}/volumes", times=None, **fault)
    shared.fault(method="GET", path="/v1/apps/app3/volumes", action="status", status=403, times=None)
    with pytest.raises(PlanRefused) as refused:
        await applied(shared, of_apps(4, 3) + volume())
    *others, problem = refused.value.diagnostics
    about = [(f"Volume/app3/data{of}",) for of in range(3)]
    assert [("403" in each.message, each.addresses) for each in others] == [(True, one) for one in about]
    assert problem.code == "unreadable"
    assert problem.message == f"{cause}: 6 objects cannot be read"
    assert problem.addresses == tuple(f"Volume/app{app}/data{of}" for app in (1, 2) for of in range(3))
    assert sum(change.action is Action.REFUSED for change in refused.value.plan.changes) == 9


async def test_drift_names_all_that_one_failing_read_is_about(stage: Stage) -> None:
    add_apps(stage, 1)
    manifests = of_apps(1, 3) + volume()
    await stage.apply(manifests)
    stage.fault(
        method="GET",
        path="/v1/apps/app0/volumes",
        action="status",
        status=503,
        headers={"retry-after": "90"},
        times=None,
    )
    (problem,) = (await find_drift(stage.project(), Desired(loaded(stage, manifests)))).plan.diagnostics
    assert problem.message == "the platform answers 503 to 1 of 2 reads: 3 objects cannot be read"
    assert problem.addresses == tuple(f"Volume/app0/data{of}" for of in range(3))


async def test_a_platform_that_is_back_is_found_out(shared: Stage) -> None:
    far = Far(shared, rate_limit=None)
    far.down = 503
    with pytest.raises(Refused):
        await applied(shared, volume())
    far.down = 0
    shared.time.elapsed_s += 6
    assert outcomes(await applied(shared, volume())) == {"Volume/shop/data#create": "done"}


async def test_an_outage_between_plan_and_apply_is_one_diagnostic(shared: Stage) -> None:
    add_apps(shared, 4)
    Far(shared, rate_limit=None)

    def begin(plan: Plan) -> bool:
        for app in (1, 2):
            shared.fault(
                method="GET", path=f"/v1/apps/app{app}/volumes", action="status", status=503, times=None
            )
        return True

    with pytest.raises(Refused) as refused:
        await applied(shared, of_apps(4, 3), begin)
    assert refused.value.message == "objects of the plan cannot be read again; nothing was changed"
    (problem,) = refused.value.diagnostics
    assert problem.code == "unreadable"
    assert problem.message == "the platform answers 503 to 2 of 4 reads: 6 objects cannot be read"
    assert problem.addresses == tuple(f"Volume/app{app}/data{of}" for app in (1, 2) for of in range(3))
    assert shared.line.mutations == []

"""What a plan says of the open call of a killed drill: the next drill finds out, and nobody is asked."""

from reconciler.core.diagnostics import IN_FLIGHT, Severity
from reconciler.project.plan import make_plan
from tests.drills.stage import desired, project_of
from tests.drills.test_runs import CLUSTER, killed, of_cluster
from tests.execution.stage import Stage


async def test_a_call_of_a_killed_drill_whose_outcome_is_open_asks_nobody(stage: Stage) -> None:
    await of_cluster(stage)
    await killed(stage, CLUSTER, "POST")
    plan = await make_plan(project_of(stage), desired(stage, CLUSTER))
    (problem,) = plan.diagnostics
    assert (problem.code, problem.severity) == (IN_FLIGHT, Severity.WARNING)
    assert "drill-weekly-" in problem.message
    assert problem.help is not None
    assert "`reconcile drill`" in problem.help

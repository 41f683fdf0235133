"""What goes on when something fails: branches are independent, reads are repeated, ids are kept."""

import pytest

from tests.cli.harness import Project, Sandbox, cluster, secret, volume


def test_other_branches_go_on_and_dependants_are_skipped_by_name(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(
        cluster(f"orders-{app}")
        + secret(app, "HOST", f'template: "${{PostgresCluster/orders-{app}:endpoints.primary.pooler.host}}"')
        + volume(app)
        + volume(app, "copy", spec="region: ams, size_gb: 10, from: {volume: data}")
        + volume(app, "copy-of-copy", spec="region: ams, size_gb: 10, from: {volume: copy}")
    )
    project.approve(f"PostgresCluster/orders-{app}")
    sandbox.fault("POST", "/v1/postgres", "status", status=422, body={"error": "no capacity for clusters"})
    failed = project.apply(code=1)
    assert failed.outcomes() == {
        f"PostgresCluster/orders-{app}#create": "failed",
        f"Secret/{app}/HOST#set": "skipped",
        f"Volume/{app}/data#create": "done",
        f"Volume/{app}/copy#create": "done",
        f"Volume/{app}/copy-of-copy#create": "done",
    }
    told = project_errors(failed.json["results"])
    assert f"PostgresCluster/orders-{app}#create" in told[f"Secret/{app}/HOST#set"]
    assert "no capacity for clusters" in told[f"PostgresCluster/orders-{app}#create"]
    assert set(project.apply().outcomes()) == {
        f"PostgresCluster/orders-{app}#create",
        f"Secret/{app}/HOST#set",
    }


def project_errors(results: list[dict[str, str]]) -> dict[str, str]:
    return {result["step"]: result.get("error", "") for result in results}


@pytest.mark.parametrize("status", [429, 503])
def test_a_read_is_repeated(project: Project, sandbox: Sandbox, app: str, status: int) -> None:
    project.write(volume(app))
    sandbox.fault("GET", f"/v1/apps/{app}/volumes", "status", status=status, headers={"retry-after": "0"})
    project.apply()
    assert len(sandbox.volumes(app)) == 1


def test_a_create_that_is_answered_429_did_nothing_and_is_sent_again(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    path = f"/v1/apps/{app}/volumes"
    sandbox.fault("POST", path, "status", status=429, headers={"retry-after": "0"})
    assert project.apply().outcomes() == {f"Volume/{app}/data#create": "done"}
    assert sandbox.mutations_of(app) == [("POST", "volumes")] * 2
    assert len(sandbox.volumes(app)) == 1


def test_a_refused_create_fails_and_is_not_repeated(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "status", status=422)
    project.apply(code=1)
    assert sandbox.volumes(app) == []
    assert sandbox.mutations_of(app) == [("POST", "volumes")]
    project.apply()
    assert len(sandbox.volumes(app)) == 1


def test_an_app_that_cannot_be_read_leaves_the_others_alone(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app) + volume("gone-app", "data"))
    plan = project.json("plan", code=1)
    assert plan.actions() == {f"Volume/{app}/data": "create", "Volume/gone-app/data": "refused"}

"""What goes on when something fails: branches are independent, reads are repeated, ids are kept."""

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

"""Lost and late answers, against a real platform process: nothing is made twice, nothing is forgotten."""

from tests.cli.harness import MUTATIONS, Project, Sandbox, cluster, lines_with, only, volume


def test_a_lost_cluster_create_is_never_repeated_before_a_person_decides(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    name = f"db-{app}"
    project.write(cluster(name) + volume(app))
    project.approve(f"PostgresCluster/{name}")
    sandbox.fault("POST", "/v1/postgres", "drop_after")
    first = project.apply(code=3)
    assert first.outcomes() == {
        f"PostgresCluster/{name}#create": "unknown",
        f"Volume/{app}/data#create": "done",
    }
    with sandbox.recording() as requests:
        again = project.run("apply", "--auto-approve", code=3)
        plan = project.run("plan", code=3)
    assert {method for method, _ in requests} == {"GET"}
    for told in (again.err, plan.err):
        assert lines_with(told, f"reconcile resolve PostgresCluster/{name} --adopt ID")
        assert lines_with(told, f"reconcile resolve PostgresCluster/{name} --not-created")
    id = only(sandbox.clusters(name))["id"]
    wrong = project.run("resolve", f"PostgresCluster/{name}", "--adopt", "nonesuch", code=1)
    assert "nonesuch" in wrong.err
    project.run("resolve", f"PostgresCluster/{name}", "--adopt", id)
    project.apply()
    assert project.json("plan").json["changes"] == []
    assert [item["id"] for item in sandbox.clusters(name)] == [id]


def test_a_lost_restore_is_a_question_to_a_person(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(cluster(f"db-{app}"))
    project.approve(f"PostgresCluster/db-{app}")
    project.apply()
    source = only(sandbox.clusters(f"db-{app}"))
    moment = sandbox.call("GET", "/_sandbox/clock")["now"]
    sandbox.advance(3600)
    spec = f"restore: {{from: db-{app}, pitr_time: '{moment}'}}"
    project.write(cluster(f"db-{app}") + cluster(f"back-{app}", spec))
    project.approve(f"PostgresCluster/back-{app}")
    sandbox.fault("POST", f"/v1/postgres/{source['id']}/restore", "drop_after")
    project.apply(code=3)
    with sandbox.recording() as requests:
        project.apply(code=3)
    assert not [request for request in requests if request[0] in MUTATIONS]
    made = only(sandbox.clusters(f"back-{app}"))
    project.run("resolve", f"PostgresCluster/back-{app}", "--adopt", made["id"])
    project.apply()
    assert len(sandbox.clusters(f"back-{app}")) == 1

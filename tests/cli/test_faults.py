"""Lost and late answers, against a real platform process: nothing is made twice, nothing is forgotten."""

import pytest

from tests.cli.harness import MUTATIONS, Project, Sandbox, cluster, lines_with, only, secret, volume


@pytest.mark.parametrize(
    ("action", "details"),
    [
        ("drop_after", {}),
        ("status", {"status": 503, "after": True}),
    ],
    ids=["dropped", "503"],
)
def test_a_volume_whose_answer_was_lost_is_found_and_not_made_again(
    project: Project, sandbox: Sandbox, app: str, action: str, details: dict[str, object]
) -> None:
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", action, **details)
    applied = project.apply()
    assert only(applied.json["results"])["id"] == sandbox.volume(app)["id"]
    assert sandbox.mutations_of(app) == [("POST", "volumes")]
    assert only(project.json("state", "list").json["records"])["inferred"] is True
    assert project.run("show", f"Volume/{app}/data").out.splitlines()[1].endswith("  inferred")


def test_a_volume_whose_request_was_lost_is_made_exactly_once(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 10, count: 2"))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "drop_before")
    project.apply()
    assert len(sandbox.volumes(app)) == 2
    assert sandbox.mutations_of(app) == [("POST", "volumes")] * 3


def test_a_volume_found_by_evidence_is_protected_from_deletion_until_confirmed(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app, rest="lifecycle: {deletion: delete, snapshot_before: []}\n"))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "drop_after")
    project.apply()
    id = sandbox.volume(app)["id"]
    project.remove()
    approved = ["--approve-delete", f"Volume/{app}/data"]
    refused = project.run("apply", "--auto-approve", *approved, code=1)
    assert f"reconcile resolve Volume/{app}/data --adopt {id}" in refused.err
    project.run("resolve", f"Volume/{app}/data", "--adopt", id)
    project.apply(*approved)
    assert sandbox.volume(app)["state"] == "pending_destroy"


def test_two_candidates_are_a_question_to_a_person(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=30)
    with project.started_apply() as running:
        running.until(lambda: bool(sandbox.volumes(app)))
        sandbox.make_volume(app, "data")
        running.kill()
    asked = project.run("apply", "--auto-approve", code=3)
    assert all(item["id"] in asked.err for item in sandbox.volumes(app))
    with sandbox.recording() as requests:
        project.json("plan", code=3)
        project.apply(code=3)
    assert {method for method, _ in requests} == {"GET"}
    project.run("resolve", f"Volume/{app}/data", "--adopt", sandbox.volumes(app)[0]["id"])
    assert project.apply().json["results"] == []
    assert len(sandbox.volumes(app)) == 2


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


def test_a_cluster_that_a_person_says_was_not_made_is_made_once(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    name = f"db-{app}"
    project.write(cluster(name))
    project.approve(f"PostgresCluster/{name}")
    sandbox.fault("POST", "/v1/postgres", "drop_before")
    told = project.run("apply", "--auto-approve", code=3)
    assert sandbox.clusters(name) == []
    assert f"reconcile resolve PostgresCluster/{name} --adopt ID" in told.out + told.err
    assert f"reconcile resolve PostgresCluster/{name} --not-created" in told.out + told.err
    project.run("resolve", f"PostgresCluster/{name}", "--not-created", "--force")
    del project.env["RECONCILE_APPROVE_CREATE"]  # saying so approves it
    project.apply()
    assert len(sandbox.clusters(name)) == 1
    project.run("resolve", f"PostgresCluster/{name}", "--not-created", code=1)


def test_with_the_capability_to_list_a_lost_cluster_is_found(
    extended_project: Project, extended: Sandbox
) -> None:
    extended_project.write(cluster("listed"))
    extended.fault("POST", "/v1/postgres", "drop_after")
    extended_project.apply()
    assert len(extended.clusters("listed")) == 1


@pytest.mark.parametrize("action", ["drop_before", "drop_after"])
def test_a_lost_update_is_repeated(project: Project, sandbox: Sandbox, app: str, action: str) -> None:
    project.write(volume(app))
    project.apply()
    id = sandbox.volume(app)["id"]
    project.write(volume(app, spec="region: ams, size_gb: 10, snapshot_retention: 30"))
    sandbox.fault("PUT", f"/v1/apps/{app}/volumes/{id}", action)
    project.apply()
    assert sandbox.volume(app)["snapshot_retention"] == 30
    assert sandbox.mutations_of(app)[1:] == [("PUT", f"volumes/{id}")] * 2


@pytest.mark.parametrize("action", ["drop_before", "drop_after"])
def test_a_lost_secret_is_set_again(project: Project, sandbox: Sandbox, app: str, action: str) -> None:
    project.write(secret(app, "PASSWORD", "env: SHOP_PASSWORD"))
    sandbox.fault("POST", f"/v1/apps/{app}/secrets/*", action)
    env = {"SHOP_PASSWORD": "value"}
    project.apply(env=env)
    assert len(sandbox.secrets(app)) == 1
    assert project.apply(env=env).json["steps"] == []


def test_a_lost_extend_converges_and_may_owe_a_restart(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.apply()
    sandbox.machine(app, sandbox.volume(app)["id"])
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    sandbox.fault("PUT", f"/v1/apps/{app}/volumes/*/extend", "drop_after")
    applied = project.apply()
    assert sandbox.volume(app)["size_gb"] == 20
    assert only(applied.json["owed"])["certainty"] == "unknown"
    assert only(project.json("plan").json["owed"])["work"] == "restart"


def test_a_lost_extend_that_a_repetition_answers_owes_one_restart(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.apply()
    sandbox.machine(app, sandbox.volume(app)["id"])
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    sandbox.fault("PUT", f"/v1/apps/{app}/volumes/*/extend", "drop_before")
    assert only(project.apply().json["owed"])["certainty"] == "owed"


@pytest.mark.parametrize("action", ["drop_before", "drop_after"])
def test_a_lost_delete_ends_with_the_volume_gone(
    project: Project, sandbox: Sandbox, app: str, action: str
) -> None:
    project.write(volume(app, rest="lifecycle: {deletion: delete, snapshot_before: []}\n"))
    project.apply()
    project.remove()
    sandbox.fault("DELETE", f"/v1/apps/{app}/volumes/*", action)
    project.apply("--approve-delete", f"Volume/{app}/data")
    assert sandbox.volume(app)["state"] == "pending_destroy"
    assert project.json("state", "list").json["records"] == []


@pytest.mark.parametrize("action", ["drop_before", "drop_after"])
def test_a_lost_snapshot_is_found_or_taken_and_only_one_is_used(
    project: Project, sandbox: Sandbox, app: str, action: str
) -> None:
    project.write(volume(app, rest="lifecycle: {snapshot_before: [extend]}\n"))
    project.apply()
    project.write(
        volume(app, spec="region: ams, size_gb: 20", rest="lifecycle: {snapshot_before: [extend]}\n")
    )
    sandbox.fault("POST", f"/v1/apps/{app}/volumes/*/snapshots", action)
    project.apply()
    assert len(sandbox.snapshots(app)) == 1
    assert sandbox.volume(app)["size_gb"] == 20


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


def test_an_answer_that_redirects_is_not_followed(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    details = {"status": 307, "headers": {"location": f"/v1/apps/{app}/volumes"}}
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "status", **details)
    project.apply()
    assert len(sandbox.volumes(app)) == 1

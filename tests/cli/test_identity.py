"""Which object belongs to which manifest, and what it takes to delete one."""

from tests.cli.harness import MUTATIONS, Project, Sandbox, cluster, only, volume


def test_the_only_match_is_adopted_and_not_made_again(project: Project, sandbox: Sandbox, app: str) -> None:
    id = sandbox.make_volume(app, "data", size_gb=10)
    project.write(volume(app))
    change = only(project.json("plan").json["changes"])
    assert (change["action"], change["id"]) == ("adopt", id)
    with sandbox.recording() as requests:
        adopted = project.apply()
    assert not [request for request in requests if request[0] in MUTATIONS]
    assert [(item["outcome"], item["id"]) for item in adopted.json["results"]] == [("done", id)]
    assert project.json("plan").json["changes"] == []


def test_an_adopted_volume_is_changed_in_the_same_run(project: Project, sandbox: Sandbox, app: str) -> None:
    id = sandbox.make_volume(app, "data", size_gb=10)
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    project.apply()
    assert (sandbox.volume(app)["id"], sandbox.volume(app)["size_gb"]) == (id, 20)


def test_more_matches_than_wanted_are_refused_naming_them(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    ids = {sandbox.make_volume(app, "data"), sandbox.make_volume(app, "data")}
    project.write(volume(app))
    refused = project.apply(code=1)
    problem = only(refused.json["diagnostics"])
    assert all(id in problem["message"] for id in ids)
    assert "metadata.id" in problem["help"]
    assert len(sandbox.volumes(app)) == 2
    chosen = min(ids)
    project.write(volume(app, spec="region: ams").replace("name: data", f"name: data, id: {chosen}"))
    adopted = only(project.apply().json["changes"])
    assert (adopted["action"], adopted["id"]) == ("adopt", chosen)


def test_count_adopts_what_is_there_and_creates_the_rest(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    sandbox.make_volume(app, "data", size_gb=10)
    project.write(volume(app, spec="region: ams, size_gb: 10, count: 3"))
    planned = project.apply()
    assert planned.actions() == {
        f"Volume/{app}/data": "adopt",
        f"Volume/{app}/data[1]": "create",
        f"Volume/{app}/data[2]": "create",
    }
    assert len(sandbox.volumes(app)) == 3
    project.write(volume(app, spec="region: ams, size_gb: 10, count: 2"))
    assert project.apply().actions() == {f"Volume/{app}/data[2]": "retain"}
    assert len(sandbox.volumes(app)) == 3


def test_a_cluster_is_adopted_by_its_id_only(project: Project, sandbox: Sandbox, app: str) -> None:
    body = {"org_slug": "personal", "plan": "basic", "region": "ams", "name": f"db-{app}"}
    id = sandbox.call("POST", "/v1/postgres", body)["data"]["id"]
    spec = "org_slug: personal, plan: basic, region: ams"
    project.write(cluster(f"db-{app}", spec))
    assert project.json("plan").actions() == {f"PostgresCluster/db-{app}": "create"}
    project.write(cluster(f"db-{app}", spec).replace("{name:", f"{{id: {id}, name:"))
    assert project.apply().actions() == {f"PostgresCluster/db-{app}": "adopt"}
    assert [item["id"] for item in sandbox.clusters(f"db-{app}")] == [id]


def test_an_id_that_is_not_there_is_refused(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app).replace("name: data", "name: data, id: vol_missing"))
    refused = project.run("apply", "--auto-approve", code=1)
    assert "vol_missing" in refused.err
    assert sandbox.volumes(app) == []


def test_a_delete_needs_the_approval_of_exactly_its_address(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    rest = "lifecycle: {deletion: delete}\n"
    project.write(volume(app, rest=rest) + volume(app, "logs", rest=rest))
    project.apply()
    project.remove()
    refused = project.apply("--approve-delete", f"Volume/{app}/data", code=1)
    helps = [item["help"] for item in refused.json["diagnostics"] if item["severity"] == "error"]
    assert helps == [f"if this is intended, pass --approve-delete Volume/{app}/logs"]
    assert {item["state"] for item in sandbox.volumes(app)} == {"created"}
    plan = project.json("plan").json
    assert {change["impact"] for change in plan["changes"]} == {"data_loss"}
    approved = ["--approve-delete", f"Volume/{app}/data", "--approve-delete", f"Volume/{app}/logs"]
    deleted = project.apply(*approved)
    assert deleted.outcomes() == {
        f"Volume/{app}/{name}#{call}": "done" for name in ("data", "logs") for call in ("snapshot", "delete")
    }
    assert {item["state"] for item in sandbox.volumes(app)} == {"pending_destroy"}
    assert len(sandbox.snapshots(app)) == 2
    assert project.json("plan").json["changes"] == []


def test_an_empty_directory_deletes_nothing(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.apply()
    project.write("")
    assert project.apply().json["results"] == []
    assert sandbox.volume(app)["state"] == "created"


def test_a_volume_that_somebody_destroyed_is_not_made_again(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.apply()
    id = sandbox.volume(app)["id"]
    sandbox.call("DELETE", f"/v1/apps/{app}/volumes/{id}")
    refused = project.run("apply", "--auto-approve", code=1)
    assert f"reconcile state forget Volume/{app}/data" in refused.err
    project.run("drift", code=2)
    project.run("state", "forget", f"Volume/{app}/data")
    project.apply()
    assert {item["state"] for item in sandbox.volumes(app)} == {"created", "pending_destroy"}


def test_forgetting_leaves_the_object_and_the_next_apply_adopts_it(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.apply()
    id = sandbox.volume(app)["id"]
    project.run("state", "forget", f"Volume/{app}/data")
    assert project.apply().actions() == {f"Volume/{app}/data": "adopt"}
    assert [item["id"] for item in sandbox.volumes(app)] == [id]


def test_a_create_only_field_cannot_change(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(cluster(f"db-{app}"))
    project.apply(*project.creating(f"PostgresCluster/db-{app}"))
    project.write(cluster(f"db-{app}", "org_slug: personal, plan: launch, region: ams"))
    refused = project.json("apply", "--auto-approve", code=1)
    assert only(only(refused.json["changes"])["fields"]) == {
        "path": "plan",
        "before": "starter",
        "after": "launch",
        "effect": "refused",
    }

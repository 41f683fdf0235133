"""Which object belongs to which manifest, and what it takes to delete one."""

from tests.cli.harness import MUTATIONS, Project, Sandbox, only, volume


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


def test_forgetting_leaves_the_object_and_the_next_apply_adopts_it(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    id = sandbox.volume(app)["id"]
    applied.run("state", "forget", f"Volume/{app}/data")
    assert applied.apply().actions() == {f"Volume/{app}/data": "adopt"}
    assert [item["id"] for item in sandbox.volumes(app)] == [id]

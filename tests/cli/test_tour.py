"""The tour that the README shows, step by step, as a person runs it. Source: issue 2."""

from tests.cli.harness import Project, Sandbox, only, volume


def test_a_restart_that_the_answer_asks_for_is_owed_until_a_person_says_it_is_done(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.apply()
    sandbox.machine(app, sandbox.volume(app)["id"])
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    change = only(project.json("plan").json["changes"])
    assert (change["action"], change["impact"]) == ("extend", "restart")
    applied = project.apply()
    owed = {
        "address": f"Volume/{app}/data",
        "work": "restart",
        "because": "extended from 10 to 20 GB",
        "certainty": "owed",
        "advice": [{"argv": ["reconcile", "resolve", f"Volume/{app}/data", "--restarted"]}],
    }
    assert applied.json["owed"] == [owed]
    later = project.run("plan", "--detailed-exitcode")
    assert "because extended from 10 to 20 GB" in later.out
    assert f"reconcile resolve Volume/{app}/data --restarted" in later.out
    assert project.apply().json["owed"] == [owed]
    project.run("resolve", f"Volume/{app}/data", "--restarted")
    assert project.json("plan").json["owed"] == []


def test_one_refused_change_keeps_the_whole_plan_from_running(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    project.apply()
    project.write(volume(app, spec="region: ams, size_gb: 10") + volume(app, "more"))
    refused = project.apply(code=1)
    assert refused.json["summary"]["create"] == 1
    assert refused.json["results"] == []
    assert len(sandbox.volumes(app)) == 1


def test_show_prints_live_fields_snapshots_and_what_is_owed(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    id = sandbox.volume(app)["id"]
    sandbox.call("POST", f"/v1/apps/{app}/volumes/{id}/snapshots")
    shown = applied.json("show", f"Volume/{app}/data").json
    assert shown["live"]["id"] == id
    assert shown["record"]["owed"] == []
    assert len(shown["snapshots"]) == 1
    assert id in applied.run("show", f"Volume/{app}/data").out

"""Waits: bounded by a deadline, taken up again by the next run, and never a reason to create again."""

import pytest

from tests.cli.harness import MUTATIONS, Project, Sandbox, cluster, only, volume

SOON = "lifecycle: {timeout_s: 1}\n"


def test_a_cluster_that_is_not_ready_in_time_is_pending_and_the_next_run_goes_on(
    still_project: Project, still: Sandbox
) -> None:
    still_project.write(cluster("slow", rest=SOON))
    still_project.approve("PostgresCluster/slow")
    pending = still_project.apply(code=4)
    assert pending.outcomes() == {"PostgresCluster/slow#create": "pending"}
    (made,) = still.clusters("slow")
    assert only(pending.json["results"])["id"] == made["id"]
    plan = still_project.json("plan", "--detailed-exitcode", code=4)
    assert only(plan.json["steps"])["method"] == "GET"
    with still.recording() as requests:
        again = still_project.apply(code=4)
    assert {method for method, _ in requests} == {"GET"}
    assert again.outcomes() == {"PostgresCluster/slow#wait": "pending"}
    still.advance(3600)
    assert still_project.apply().json["steps"] == []
    assert [item["id"] for item in still.clusters("slow")] == [made["id"]]


@pytest.mark.parametrize("outcome", ["failed", "error"])
def test_a_cluster_that_fails_keeps_its_id_and_is_never_made_again(
    project: Project, sandbox: Sandbox, app: str, outcome: str
) -> None:
    sandbox.switch(cluster_outcome=outcome)
    project.write(cluster(f"db-{app}"))
    project.approve(f"PostgresCluster/db-{app}")
    failed = project.apply(code=1)
    sandbox.switch(cluster_outcome="ready")
    (made,) = sandbox.clusters(f"db-{app}")
    result = only(failed.json["results"])
    assert (result["outcome"], result["id"]) == ("failed", made["id"])
    assert outcome in result["error"]
    with sandbox.recording() as requests:
        refused = project.apply(code=1)
    assert {method for method, _ in requests} == {"GET"}
    assert made["id"] in only(refused.json["diagnostics"])["message"]
    assert len(sandbox.clusters(f"db-{app}")) == 1


def test_a_volume_from_a_snapshot_is_waited_for_until_it_is_created(
    still_project: Project, still: Sandbox
) -> None:
    app = still.app("restoring")
    source = still.make_volume(app, "source", size_gb=5)
    still.call("POST", f"/v1/apps/{app}/volumes/{source}/snapshots")
    still.advance(60)
    (snapshot,) = still.snapshots(app)
    spec = f"region: ams, size_gb: 5, snapshot_id: {snapshot['id']}"
    still_project.write(volume(app, spec=spec, rest=SOON))
    still_project.apply(code=4)
    with still.recording() as requests:
        still_project.apply(code=4)
    assert not [request for request in requests if request[0] in MUTATIONS]
    still.advance(600)
    still_project.apply()
    assert len(still.volumes(app)) == 2


def test_what_depends_on_a_pending_step_is_skipped_until_it_is_done(
    still_project: Project, still: Sandbox
) -> None:
    app = still.app("dependants")
    source = still.make_volume(app, "source")
    spec = f"region: ams, size_gb: 5, source_volume_id: {source}"
    copy = "region: ams, size_gb: 5, from: {volume: data}"
    still_project.write(volume(app, spec=spec, rest=SOON) + volume(app, "copy", spec=copy, rest=SOON))
    first = still_project.apply(code=4)
    assert first.outcomes() == {
        f"Volume/{app}/data#create": "pending",
        f"Volume/{app}/copy#create": "skipped",
    }
    still.advance(600)
    still_project.apply(code=4)
    still.advance(600)
    still_project.apply()
    assert sorted(item["name"] for item in still.volumes(app)) == ["copy", "data", "source"]


def test_an_on_demand_snapshot_is_waited_for(still_project: Project, still: Sandbox) -> None:
    app = still.app("snapshots")
    rest = "lifecycle: {snapshot_before: [extend], timeout_s: 1}\n"
    still_project.write(volume(app, rest=rest))
    still_project.apply()
    still_project.write(volume(app, spec="region: ams, size_gb: 20", rest=rest))
    first = still_project.apply(code=4)
    assert first.outcomes() == {
        f"Volume/{app}/data#snapshot": "pending",
        f"Volume/{app}/data#extend": "skipped",
    }
    assert still.volume(app)["size_gb"] == 10
    still.advance(600)
    still_project.write(volume(app, spec="region: ams, size_gb: 20"))
    still_project.apply()
    assert still.volume(app)["size_gb"] == 20


def test_json_says_what_the_limits_make_of_a_run_where_they_hold(project: Project, app: str) -> None:
    project.write(volume(app))
    assert "budget" not in project.json("plan").json
    project.env["RECONCILE_RATE_LIMIT_LOOPBACK"] = "1"
    assert project.json("plan").json["budget"] == {"requests": 1, "limited_s": 0.0}
    ran = project.apply()
    assert ran.json["budget"] == {"requests": 3, "limited_s": 0.0}  # two looks and a create
    assert "limits allow" not in ran.err

"""Waits: bounded by a deadline, taken up again by the next run, and never a reason to create again."""

from tests.cli.harness import Project, Sandbox, cluster, only, volume

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


def test_json_says_what_the_limits_make_of_a_run_where_they_hold(project: Project, app: str) -> None:
    project.write(volume(app))
    assert "budget" not in project.json("plan").json
    project.env["RECONCILE_RATE_LIMIT_LOOPBACK"] = "1"
    assert project.json("plan").json["budget"] == {"requests": 1, "limited_s": 0.0}
    ran = project.apply()
    assert ran.json["budget"] == {"requests": 3, "limited_s": 0.0}  # two looks and a create
    assert "limits allow" not in ran.err

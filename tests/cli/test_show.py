"""`show`: what was last known of an object that nothing shows now."""

from tests.cli.harness import Project, Sandbox, cluster, secret


def test_a_secret_that_nothing_lists_is_shown_as_it_was_recorded(project: Project, app: str) -> None:
    project.env["PASSWORD"] = "hunter2hunter2"
    project.write(secret(app, "PASSWORD", "env: PASSWORD"))
    project.apply()
    shown = project.run("show", f"Secret/{app}/PASSWORD").out
    record = project.json("show", f"Secret/{app}/PASSWORD").json["record"]
    began = record["created_at"][:19] + "Z"
    assert "not readable on the platform" in shown
    assert f'  last known, from what was recorded first at {began}:\n    name: "PASSWORD"\n' in shown
    assert "hunter2" not in shown


def test_a_cluster_that_is_gone_is_shown_as_it_was_recorded(
    extended_project: Project, extended: Sandbox, app: str
) -> None:
    extended_project.write(cluster(f"db-{app}"))
    extended_project.apply()
    (made,) = extended.clusters(f"db-{app}")
    extended.fault("GET", f"/v1/postgres/{made['id']}", "status", status=404)
    shown = extended_project.run("show", f"PostgresCluster/db-{app}", code=1).out
    assert "  not on the platform\n  last known, from what was recorded first at " in shown
    assert f'    name: "db-{app}"\n' in shown

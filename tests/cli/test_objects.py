"""`show` and `resolve`: verbs about single recorded objects."""

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


def test_nothing_to_confirm_is_told(applied: Project, app: str) -> None:
    ran = applied.run("resolve", "--confirm-inferred")
    assert (ran.out, ran.err) == ("", "no recorded id is inferred: there is nothing to confirm\n")
    assert applied.json("resolve", "--confirm-inferred").json["resolved"] == []
    applied.run("resolve", "--confirm-inferred", f"Volume/{app}/data", code=1)


def test_a_lookalike_is_named_until_it_is_dismissed(applied: Project, sandbox: Sandbox, app: str) -> None:
    first, second = (sandbox.make_volume(app, "data", region="ams", size_gb=10) for _ in range(2))
    for arguments in (("plan",), ("plan", "--detailed-exitcode"), ("drift",), ("apply", "--auto-approve")):
        told = applied.run(*arguments, code=0)
        assert "warning[lookalike]" in told.err
        assert f"reconcile resolve Volume/{app}/data --dismiss" in told.err
    address = f"Volume/{app}/data"
    applied.run("resolve", address, "--dismiss", first, "--not-created", code=64)
    applied.run("resolve", address, "--dismiss", first, "--force", code=64)
    applied.run("resolve", address, f"Volume/{app}/logs", "--dismiss", first, code=64)
    assert (
        applied.json("resolve", address, "--dismiss", first, "--dismiss", second).json["address"] == address
    )
    for verb in ("plan", "drift"):
        assert "lookalike" not in applied.run(verb, code=0).err


def restored(source: str, backup: str) -> str:
    return cluster("copy", f"restore: {{from: {source}, backup_id: {backup}}}")


def test_the_source_of_a_restored_cluster_leaves_the_manifests(
    extended: Sandbox, extended_project: Project
) -> None:
    project = extended_project
    project.write(cluster("orders"))
    project.apply()
    source = extended.clusters("orders")[0]
    backup = source["backups"][0]["id"]
    project.write(cluster("orders") + restored("orders", backup))
    project.apply()
    for named in ("orders", source["id"]):
        project.write(restored(named, backup))
        plan = project.json("plan").json
        assert ([each["code"] for each in plan["diagnostics"]], plan["steps"]) == ([], [])
    project.write(restored(extended.clusters("copy")[0]["id"], backup))
    assert "was restored from orders" in project.run("plan", code=1).err

"""A cluster that was restored does not need the manifest of its source any more."""

from tests.cli.harness import Project, Sandbox, cluster


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

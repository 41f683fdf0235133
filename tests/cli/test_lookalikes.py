"""`lookalike` on the command line: a warning that changes no exit code, and `resolve --dismiss`."""

from tests.cli.harness import Project, Sandbox, volume


def test_a_lookalike_is_named_until_it_is_dismissed(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.apply()
    first, second = (sandbox.make_volume(app, "data", region="ams", size_gb=10) for _ in range(2))
    for arguments in (("plan",), ("plan", "--detailed-exitcode"), ("drift",), ("apply", "--auto-approve")):
        told = project.run(*arguments, code=0)
        assert "warning[lookalike]" in told.err
        assert f"reconcile resolve Volume/{app}/data --dismiss" in told.err
    address = f"Volume/{app}/data"
    project.run("resolve", address, "--dismiss", first, "--not-created", code=64)
    project.run("resolve", address, "--dismiss", first, "--force", code=64)
    project.run("resolve", address, f"Volume/{app}/logs", "--dismiss", first, code=64)
    assert (
        project.json("resolve", address, "--dismiss", first, "--dismiss", second).json["address"] == address
    )
    for verb in ("plan", "drift"):
        assert "lookalike" not in project.run(verb, code=0).err

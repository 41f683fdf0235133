"""A secret value leaves memory only in the call that sets it."""

from pathlib import Path

import pytest

from tests.cli.harness import Project, Sandbox, lines_with, secret, volume

CANARY = "canary-4711-value"


def test_no_value_reaches_any_output_or_file(
    project: Project, sandbox: Sandbox, app: str, sandbox_db: Path
) -> None:
    project.write(
        secret(app, "FROM_ENV", "env: SHOP_PASSWORD")
        + secret(app, "FROM_FILE", "file: password.txt")
        + secret(app, "FROM_TEMPLATE", 'template: "user:${env:SHOP_PASSWORD}@host"')
        + volume(app)
    )
    (project.root / "manifests" / "password.txt").write_text(f"{CANARY}-file\n", encoding="utf-8")
    env = {"SHOP_PASSWORD": CANARY}
    ran = [
        project.run("-vv", "plan", "--out", "saved.plan", env=env),
        project.json("plan", env=env),
        project.run("-vv", "apply", "--plan", "saved.plan", env=env),
        project.apply(env={"SHOP_PASSWORD": f"{CANARY}-2"}),
        project.run("-vv", "drift", env=env),
        project.json("state", "show", f"Secret/{app}/FROM_ENV"),
        project.run("show", f"Secret/{app}/FROM_FILE", code=None),
    ]
    assert len(sandbox.secrets(app)) == 3
    assert CANARY not in "".join(each.out + each.err for each in ran)
    assert lines_with(ran[2].err, "http.request")
    written = [file for file in project.root.rglob("*") if file.is_file() and file.name != "password.txt"]
    assert {"state.db", "saved.plan"} <= {file.name for file in written}
    for file in [*written, *sandbox_db.parent.iterdir()]:
        assert CANARY.encode() not in file.read_bytes(), file


def test_a_refused_call_does_not_quote_the_value(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(secret(app, "PASSWORD", "env: SHOP_PASSWORD"))
    echoed = {"error": f"bad value {CANARY}", "status": "invalid", "details": {"value": CANARY}}
    sandbox.fault("POST", f"/v1/apps/{app}/secrets/*", "status", status=422, body=echoed)
    failed = project.run("-vv", "apply", "--auto-approve", env={"SHOP_PASSWORD": CANARY}, code=1)
    assert CANARY not in failed.out + failed.err
    for file in filter(Path.is_file, (project.root / ".reconcile").rglob("*")):
        assert CANARY.encode() not in file.read_bytes(), file


def test_a_digest_that_is_the_value_is_not_recorded_and_no_drift(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(secret(app, "PASSWORD", "env: SHOP_PASSWORD"))
    told = {"name": "PASSWORD", "version": 7, "digest": CANARY}
    sandbox.fault("POST", f"/v1/apps/{app}/secrets/*", "status", status=201, body=told, after=True)
    project.apply(env={"SHOP_PASSWORD": CANARY})
    shown = project.json("state", "show", f"Secret/{app}/PASSWORD").json["record"]
    assert (shown["applied"]["version"], shown["applied"]["digest"]) == (7, None)
    assert project.json("plan", env={"SHOP_PASSWORD": CANARY}).json["summary"]["set"] == 0
    for file in filter(Path.is_file, (project.root / ".reconcile").rglob("*")):
        assert CANARY.encode() not in file.read_bytes(), file


def test_plan_warns_about_a_source_that_is_not_readable_here_and_apply_leaves_it_out(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(secret(app, "PASSWORD", "env: SHOP_PASSWORD") + volume(app))
    plan = project.json("plan")
    assert [(item["code"], item["severity"]) for item in plan.json["diagnostics"]] == [
        ("secret-source", "warning")
    ]
    project.run("plan", "--out", "saved.plan")
    with sandbox.recording() as requests:
        failed = project.run("apply", "--plan", "saved.plan", code=1)
    assert [path for method, path in requests if method != "GET"] == [f"/v1/apps/{app}/volumes"]
    assert "SHOP_PASSWORD" in failed.err
    with sandbox.recording() as requests:
        failed = project.apply(code=1)
    assert {method for method, _ in requests} <= {"GET"}
    assert "SHOP_PASSWORD" in failed.out


def test_the_state_is_readable_by_its_owner_only(applied: Project, sandbox: Sandbox) -> None:
    folder = applied.root / ".reconcile"
    assert folder.stat().st_mode & 0o077 == 0
    assert [file for file in folder.rglob("*") if file.stat().st_mode & 0o077] == []


@pytest.mark.parametrize(
    "settings",
    [
        "platform: {token: hunter2}\n",
        "platform: {token_from: hunter2}\n",
        "state: ['postgresql://user:hunter2@db/x']\n",
        "platform: {token: hunter2\n",
    ],
)
def test_what_stands_in_faulty_settings_is_not_repeated(project: Project, settings: str) -> None:
    project.write(settings, "reconcile.yaml")
    ran = project.run("plan", code=1)
    assert "reconcile.yaml:1:" in ran.err
    assert "hunter2" not in ran.out + ran.err


def test_no_plugin_of_the_validator_is_loaded(project: Project, app: str) -> None:
    """It would get every value that is validated. Packages bring such plugins without being asked."""
    package = project.root / "installed"
    about = package / "spy-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: spy\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[pydantic]\nspy = spy:plugin\n")
    (package / "spy.py").write_text("print('the plugin is loaded')\nplugin = None\n")
    project.write(volume(app))
    env = {"PYTHONPATH": f"{project.env['PYTHONPATH']}:{package}"}
    with project.started("validate", env=env) as ours:
        assert "loaded" not in ours.process.communicate()[0]
    with project.started("validate", env={**env, "PYDANTIC_DISABLE_PLUGINS": ""}) as allowed:
        assert "loaded" in allowed.process.communicate()[0]

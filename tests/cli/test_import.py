"""`reconcile import` against a real platform process: read, reviewed, adopted, and nothing was changed."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import run
from tests.cli.harness import MUTATIONS, Project, Sandbox, volume

Capture = pytest.CaptureFixture[str]


def told(capture: Capture, *arguments: str) -> Any:
    """The JSON document of a verb that succeeds."""
    assert run([*arguments, "--output", "json"]) == 0
    return json.loads(capture.readouterr().out)


def test_what_runs_is_imported_adopted_and_quiet_without_a_mutation(
    project: Project, sandbox: Sandbox, app: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    project.enter(monkeypatch)
    ids = [
        sandbox.make_volume(app, "data"),
        sandbox.make_volume(app, "data", fstype="raw"),
        sandbox.make_volume(
            app, "logs", size_gb=20, encrypted=False, auto_backup_enabled=False, snapshot_retention=30
        ),
    ]
    sandbox.machine(app, ids[0])
    with sandbox.recording() as requests:
        imported = told(capsys, "import", app)
        plan = told(capsys, "plan")
        told(capsys, "apply", "--auto-approve")
        again = told(capsys, "plan")
        second = told(capsys, "import", app)
    assert {method for method, _ in requests} == {"GET"}
    assert {each["id"] for each in imported["imported"]} == set(ids)
    assert imported["files"] == [{"file": f"manifests/{app}.yaml", "action": "create"}]
    assert {change["action"] for change in plan["changes"]} == {"adopt"}
    assert (plan["summary"]["adopt"], plan["steps"], again["changes"]) == (3, [], [])
    assert (second["imported"], {each["why"] for each in second["skipped"]}) == ([], {"known"})


def test_an_organizations_clusters_are_imported_with_every_field(
    extended_project: Project, extended: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    extended_project.enter(monkeypatch)
    body: dict[str, Any] = {"org_slug": "personal", "plan": "performance", "region": "ams", "name": "orders"}
    body |= {"disk_size_gb": 40, "pg_major_version": "17", "postgis_enabled": True}
    id = extended.call("POST", "/v1/postgres", {**body, "pool_mode": "transaction"})["data"]["id"]
    extended.advance(600)
    with extended.recording() as requests:
        told(capsys, "import", "--org", "personal")
        plan = told(capsys, "plan")
        told(capsys, "apply", "--auto-approve")
        again = told(capsys, "plan")
    text = Path("manifests/org-personal.yaml").read_text()
    assert id in text
    assert "plan: Performance\n" in text
    assert [(each["address"], each["action"]) for each in plan["changes"]] == [
        ("PostgresCluster/orders", "adopt")
    ]
    assert again["changes"] == []
    assert {method for method, _ in requests}.isdisjoint(MUTATIONS)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_a_signal_while_reading_writes_nothing(
    project: Project, sandbox: Sandbox, app: str, number: int, code: int
) -> None:
    sandbox.make_volume(app, "data")
    sandbox.fault("GET", f"/v1/apps/{app}/volumes", "delay", delay_s=600)
    with project.started("import", app) as running:
        running.until(sandbox.fault_taken)
        running.signal(number)
        ended = running.ended()
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("error: interrupted\n")
    assert list((project.root / "manifests").iterdir()) == []


# --- what is told, and the exit codes ---


@pytest.fixture
def here(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with no manifests and no settings yet."""
    project.enter(monkeypatch)
    Path("manifests").rmdir()
    Path("reconcile.yaml").unlink()
    return project.root


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name what to import"),
        (["../etc"], "`..` is neither an app nor an id"),
        (["-x"], "No such option"),
        (["shop/"], "`` is not a valid id"),
        (["shop/a/b"], "`a/b` is not a valid id"),
        (["shop\n"], "neither an app nor an id"),
        (["--cluster", "../../x"], "is not a valid id"),
    ],
)
def test_what_names_nothing_is_a_usage_error(
    here: Path, capsys: Capture, arguments: list[str], told: str
) -> None:
    assert run(["import", *arguments]) == 64
    assert told in capsys.readouterr().err


def test_a_dry_run_shows_the_manifests_and_writes_nothing(
    here: Path, sandbox: Sandbox, app: str, capsys: Capture
) -> None:
    id = sandbox.make_volume(app, "data")
    assert run(["import", app, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert f"manifests/{app}.yaml (new): 1 Volume\n" in shown
    assert id in shown
    assert shown.endswith("Would import: 1 object in 1 file.\n")
    assert [each.name for each in here.iterdir()] == [".reconcile"]


def test_an_app_that_is_not_there_fails_the_run_after_all_others_are_written(
    here: Path, sandbox: Sandbox, app: str, capsys: Capture
) -> None:
    sandbox.make_volume(app, "data")
    assert run(["import", "nonesuch", app, "--out", "live/apps"]) == 1
    told = capsys.readouterr()
    assert f"live/apps/{app}.yaml (new): 1 Volume\n" in told.out
    assert told.err.count("error[unreadable]: cannot read app `nonesuch`: ") == 1
    assert "note: `live/apps` is not among the configured manifests" in told.err
    assert run(["import", app, "--out", "live/apps"]) == 0
    assert capsys.readouterr().out == "Imported nothing new; 1 known already.\n"


def test_manifests_with_errors_are_corrected_first(
    here: Path, sandbox: Sandbox, app: str, capsys: Capture
) -> None:
    Path("manifests").mkdir()
    Path("manifests/bad.yaml").write_text("kind: Volum\n")
    assert run(["import", app]) == 1
    assert "the manifests have errors; nothing was written" in capsys.readouterr().err
    assert [path.name for path in Path("manifests").iterdir()] == ["bad.yaml"]


def test_an_address_that_something_left_in_other_environments_is_not_given_to_another(
    here: Path, sandbox: Sandbox, app: str, capsys: Capture
) -> None:
    sandbox.make_volume(app, "data")
    entry = f"kind: Moved\nmetadata: {{name: m}}\nspec: {{from: Volume/{app}/data, to: Volume/{app}/files}}\n"
    Path("manifests").mkdir()
    Path("overlays/prod").mkdir(parents=True)
    Path("manifests/all.yaml").write_text(f"{volume(app, 'files')}---\napiVersion: reconciler/v1\n{entry}")
    Path("overlays/prod/all.yaml").write_text(f"Volume/{app}/files: null\n")
    imported = told(capsys, "import", app, "--env", "prod")
    assert [each["address"] for each in imported["imported"]] == [f"Volume/{app}/data-2"]
    for arguments in ([], ["--env", "prod"]):
        assert run(["validate", *arguments]) == 0


def test_a_single_configured_file_is_no_place_for_new_ones(here: Path, capsys: Capture) -> None:
    Path("all.yaml").write_text("")
    Path("reconcile.yaml").write_text("manifests: [all.yaml]\n")
    assert run(["import", "shop"]) == 1
    assert "pass --out DIR" in capsys.readouterr().err


def test_a_place_that_takes_no_file_is_told(here: Path, sandbox: Sandbox, app: str, capsys: Capture) -> None:
    sandbox.make_volume(app, "data")
    assert run(["import", app, "--out", "/proc/nowhere"]) == 1
    assert f"error: cannot write /proc/nowhere/{app}.yaml: " in capsys.readouterr().err

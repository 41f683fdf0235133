"""The fixture that other projects' test suites take, used as they would. Source: docs/sandbox.md."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from reconciler.sandbox.plugin import RunningSandbox, SandboxRefused

VOLUMES = "/v1/apps/shop/volumes"


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_meets_a_fresh_world(reconcile_sandbox: RunningSandbox, turn: int) -> None:
    assert reconcile_sandbox.world()["volumes"] == []
    reconcile_sandbox.app("shop", primary_region="fra")
    assert reconcile_sandbox.ok("POST", VOLUMES, {"name": f"data{turn}"})["region"] == "fra"


def test_its_clock_stands_still_until_the_test_moves_it(reconcile_sandbox: RunningSandbox) -> None:
    body = {"org_slug": "personal", "plan": "basic", "region": "ams"}
    id = reconcile_sandbox.ok("POST", "/v1/postgres", body)["data"]["id"]
    reconcile_sandbox.advance(149)
    assert reconcile_sandbox.ok("GET", f"/v1/postgres/{id}")["data"]["status"] == "initializing"
    reconcile_sandbox.advance(1)
    assert reconcile_sandbox.ok("GET", f"/v1/postgres/{id}")["data"]["status"] == "ready"
    assert reconcile_sandbox.edit_cluster(id, status="failed")["status"] == "failed"


@pytest.mark.reconcile_sandbox(
    profile="documented",
    strict=True,
    token="another",
    seed={"volumes": [{"id": "vol_1", "app": "shop", "name": "data"}]},
    switch={"started_word": "running"},
)
def test_a_mark_says_how_it_is_started(reconcile_sandbox: RunningSandbox) -> None:
    assert reconcile_sandbox.token == "another"
    assert [volume["id"] for volume in reconcile_sandbox.ok("GET", VOLUMES)] == ["vol_1"]
    assert reconcile_sandbox.request("GET", "/v1/apps/shop/machines")[0] == 404
    assert reconcile_sandbox.request("GET", f"{VOLUMES}?unknown=1")[0] == 400
    assert reconcile_sandbox.machine("shop", id="m1")["state"] == "running"


def test_every_control_verb_is_a_method(reconcile_sandbox: RunningSandbox) -> None:
    reconcile_sandbox.app("shop")
    id = reconcile_sandbox.ok("POST", VOLUMES, {"name": "data"})["id"]
    reconcile_sandbox.machine("shop", id="m1", volumes=[id])
    assert reconcile_sandbox.machine_verb("m1", "stop")["state"] == "stopping"
    assert reconcile_sandbox.edit_volume(id, size_gb=7)["size_gb"] == 7
    reconcile_sandbox.fault("status", method="GET", status=503)
    assert reconcile_sandbox.request("GET", VOLUMES)[0] == 503
    reconcile_sandbox.faults({"seed": 1, "faults": [{"action": "html"}]})
    reconcile_sandbox.clear_faults()
    reconcile_sandbox.switch(secret_status=200)
    assert reconcile_sandbox.request("POST", "/v1/apps/shop/secrets/A", {"value": "x"})[0] == 200
    assert [entry["status"] for entry in reconcile_sandbox.log()] == [200, 503, 200]
    with pytest.raises(SandboxRefused, match="GET /v1/nothing was answered with 404"):
        reconcile_sandbox.ok("GET", "/v1/nothing")


def test_another_project_takes_the_fixture_without_importing_anything(tmp_path: Path) -> None:
    tests = """
        def test_it(reconcile_sandbox):
            reconcile_sandbox.app("shop")
            assert reconcile_sandbox.ok("GET", "/v1/apps/shop/volumes") == []
            assert reconcile_sandbox.request("GET", "/v1/apps/nobody/volumes")[0] == 404
    """
    (tmp_path / "test_theirs.py").write_text(dedent(tests))
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-W", "error", "."]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def pytest_alone(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """pytest with this plugin and no other: those that are installed beside it cost two seconds."""
    command = [sys.executable, "-m", "pytest", "-p", "reconciler.sandbox.plugin", *arguments]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(("mark", "says"), [("bogus=1", "takes no bogus"), ("'x600'", "takes no 'x600'")])
def test_a_misspelt_mark_is_told_with_what_there_is(tmp_path: Path, mark: str, says: str) -> None:
    tests = f"""
        import pytest

        @pytest.mark.reconcile_sandbox({mark})
        def test_it(reconcile_sandbox):
            pass
    """
    (tmp_path / "test_theirs.py").write_text(dedent(tests))
    ran = pytest_alone("-q", "--strict-markers", ".", folder=tmp_path)
    assert ran.returncode == 1
    assert says in ran.stdout
    assert "clock, profile, strict, seed, switch, script, apps, machines, postgres, token" in ran.stdout
    assert "TypeError" not in ran.stdout


def test_the_list_of_marks_names_every_argument(tmp_path: Path) -> None:
    ran = pytest_alone("--markers", folder=tmp_path)
    assert (
        "reconcile_sandbox(clock, profile, strict, seed, switch, script, apps, machines, postgres, token)"
        in ran.stdout
    )

"""An object that another environment of the project has recorded is not taken."""

import json
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import TOKEN, Sandbox
from tests.inprocess import Command, secret, volume

_numbers = count(1)


@pytest.fixture
def app(sandbox: Sandbox) -> str:
    return sandbox.app(f"shared{next(_numbers)}")


@pytest.fixture
def owned(reconcile: Command, sandbox: Sandbox, app: str) -> Command:
    """A project whose environments share an app; `prod` has made its volume, `test` and the base nothing."""
    reconcile.variables |= {"RECONCILE_BASE_URL": sandbox.url, "RECONCILE_TOKEN": TOKEN, "PW": "canary"}
    reconcile.variables["RECONCILE_SETTLE_S"] = "0.2"
    reconcile.write("manifests/data.yaml", volume(app=app))
    for name in ("prod", "test"):
        reconcile.write(f"overlays/{name}/a.yaml", "Volume/*/*: {spec: {size_gb: 10}}\n")
    for name in ("base", "prod", "test"):
        reconcile(f"state init --env {name}")
    reconcile("apply --env prod --auto-approve")
    return reconcile


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All files of a folder, with the time of their last change."""
    return {
        str(each): (each.stat().st_mtime_ns, each.read_bytes())
        for each in folder.rglob("*")
        if each.is_file()
    }


def problems(command: Command, line: str, code: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command(f"{line} -o json", code=code).out)["diagnostics"]
    return found


def test_the_volume_of_another_environment_is_not_adopted(owned: Command, sandbox: Sandbox, app: str) -> None:
    id = sandbox.volume(app)["id"]
    before = files(owned.root / ".reconcile/prod")
    with sandbox.recording() as requests:
        for line in ("plan --env base", "plan --env test", "apply --env test --auto-approve"):
            (problem,) = problems(owned, line)
            assert problem["code"] == "recorded-elsewhere"
            assert problem["message"] == (
                f"`Volume/{app}/data` would take {id}, which is recorded as `Volume/{app}/data` "
                "in environment `prod`"
            )
            assert (problem["file"], problem["line"], problem["column"]) == ("manifests/data.yaml", 4, 18)
    assert {method for method, _ in requests} == {"GET"}
    assert files(owned.root / ".reconcile/prod") == before
    assert owned("plan --env prod").out.splitlines()[-1].startswith("No changes")


def test_nor_by_its_id(owned: Command, sandbox: Sandbox, app: str) -> None:
    id = sandbox.volume(app)["id"]
    manifest = volume("mine", app=app).replace("name: mine", f"name: mine, id: {id}")
    owned.write("overlays/test/mine.yaml", manifest)
    owned.write("overlays/test/a.yaml", f"Volume/{app}/data: null\n")
    (problem,) = problems(owned, "plan --env test")
    assert (problem["code"], problem["file"]) == ("recorded-elsewhere", "overlays/test/mine.yaml")


def test_nor_is_the_value_of_its_secret_replaced(owned: Command, app: str) -> None:
    owned.write("manifests/pw.yaml", secret("PW", "env: PW", app=app))
    owned("apply --env prod --auto-approve")
    owned.write("overlays/test/a.yaml", f"Volume/{app}/data: null\n")
    for capabilities in ("", "extended"):
        owned.variables["RECONCILE_CAPABILITIES"] = capabilities
        (problem,) = problems(owned, "plan --env test")
        assert problem["code"] == "recorded-elsewhere"


def test_a_plan_that_was_saved_before_is_refused(owned: Command, sandbox: Sandbox, app: str) -> None:
    other = sandbox.make_volume(app, "logs", size_gb=10)
    owned.write("manifests/data.yaml", volume("logs", app=app))
    owned("plan --env test --out saved.plan")
    owned("apply --env base --auto-approve")
    told = owned("apply --env test --plan saved.plan", code=1).err
    assert f"would take {other}, which is recorded as `Volume/{app}/logs` in environment `base`" in told


def test_a_state_that_is_not_here_is_told_of_once(owned: Command, sandbox: Sandbox, app: str) -> None:
    shutil.rmtree(owned.root / ".reconcile/prod")
    (owned.root / ".reconcile/state.db").write_bytes(b"damaged")
    (remark,) = problems(owned, "plan --env test", code=0)
    assert (remark["code"], remark["severity"]) == ("environment-not-read", "info")
    assert "the states of `base` and `prod` cannot be read here" in remark["message"]
    assert not (owned.root / ".reconcile/prod").exists()
    assert (owned.root / ".reconcile/state.db").read_bytes() == b"damaged"
    owned.write("manifests/data.yaml", volume("new", app=app))
    assert problems(owned, "plan --env test", code=0) == []  # where nothing is taken over, nobody has to know


def test_a_state_that_is_not_the_pinned_one_is_not_read(owned: Command) -> None:
    pin = "6c1e0a52-4c0f-4f9e-9d43-0f3f1f1d8a57"
    owned.write("reconcile.yaml", f"environments: {{prod: {{state: {{lineage: {pin}}}}}}}\n")
    (remark,) = problems(owned, "plan --env test", code=0)
    assert remark["code"] == "environment-not-read"


def test_a_state_of_another_platform_has_other_objects(owned: Command, sandbox: Sandbox) -> None:
    del owned.variables["RECONCILE_BASE_URL"]
    owned.monkeypatch.delenv("RECONCILE_BASE_URL")
    owned.write(
        "reconcile.yaml",
        f"platform: {{base_url: {sandbox.url}}}\n"
        "environments: {prod: {platform: {base_url: https://prod.example.com}}}\n",
    )
    assert "1 to adopt" in owned("plan --env test").out


@pytest.mark.slow
def test_an_import_leaves_it_out(owned: Command, app: str) -> None:
    owned.write("manifests/data.yaml", volume("other", app=app))
    told = owned(f"import {app} --env test").out
    assert f"environment `prod` has recorded it as `Volume/{app}/data`" in told

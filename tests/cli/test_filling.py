"""Volumes that fill, from the first warning to the pull request that makes them larger."""

import json
from datetime import datetime, timedelta

import pytest

from tests.cli.harness import Project, Sandbox
from tests.cli.test_metrics import numbers

pytestmark = pytest.mark.slow

DAY_S = 86_400
BLOCKS = 2**30 // 4096  # of one GB


def volume(app: str, size: str = "10", rest: str = "alert_at: 80%") -> str:
    return (
        "# why it is so large: ask the shop's team\n"
        f"apiVersion: reconciler/v1\nkind: Volume\nmetadata: {{name: data, app: {app}}}\n"
        f"spec: {{region: ams, size_gb: {size}}} # grows\nlifecycle: {{{rest}}}\n"
    )


def fill(sandbox: Sandbox, app: str, free_gb: float) -> None:
    sandbox.edit_volume(sandbox.volume(app)["id"], blocks_free=round(free_gb * BLOCKS))


def test_a_filling_volume_is_told_by_drift_show_and_metrics(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.run("apply", "--auto-approve")
    fill(sandbox, app, 2.5)
    project.run("drift")
    fill(sandbox, app, 1.5)
    file = project.root / "shop.prom"
    drift = project.run("drift", "-o", "json", "--report", f"openmetrics={file}", code=2)
    document = json.loads(drift.out)
    id = sandbox.volume(app)["id"]
    told = f"`Volume/{app}/data` ({id}): 8.5 of 10.0 GB used (85 %); no trend known"
    assert [each["message"] for each in document["diagnostics"]] == [told]
    assert [each["code"] for each in document["diagnostics"]] == ["volume-filling"]
    (change,) = document["changes"]
    assert change["fields"] == [{"path": "alert_at", "before": "80%", "after": "85%", "effect": "refused"}]
    assert numbers(file, "scope_status") == {(app, "drifted"): 1}
    at = (f"Volume/{app}/data", app)
    assert numbers(file, "object_used_bytes") == {at: 8.5 * 2**30}
    assert numbers(file, "object_total_bytes") == {at: 10 * 2**30}
    assert "fullness: 8.5 of 10.0 GB used (85 %)" in project.run("show", f"Volume/{app}/data").out
    shown = json.loads(project.run("show", f"Volume/{app}/data", "-o", "json").out)
    assert shown["fullness"] == {"used_bytes": 8.5 * 2**30, "total_bytes": 10 * 2**30, "percent": 85}
    project.run("plan", "--detailed-exitcode")


def test_looks_foretell_and_the_proposed_size_is_written_with_all_comments_kept(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.run("apply", "--auto-approve")
    project.run("forecast", "--within", "soon", code=64)
    told = project.run("forecast").out
    assert "0 of 1 object will be full" in told
    assert "not recorded" in told
    for free_gb in (7, 6, 5, 4):
        fill(sandbox, app, free_gb)
        project.run("apply", "--auto-approve")
        sandbox.advance(DAY_S)
    before = project.root.joinpath("manifests/main.yaml").read_text()
    page = project.root / "forecast.html"
    # The platform's clock may be ahead of this one: other tests share the sandbox.
    (known,) = json.loads(project.run("forecast", "-o", "json", "--within", "3650d", code=2).out)["objects"]
    until = (datetime.fromisoformat(known["last"]["at"]) + timedelta(days=5)).isoformat()
    found = json.loads(
        project.run(
            "forecast",
            "--within",
            until,
            "--propose",
            "pull",
            "-o",
            "json",
            "--report",
            f"html={page}",
            code=2,
        ).out
    )
    (only,) = found["objects"]
    assert (only["looks"], only["last"]["used_bytes"]) == (4, 6 * 2**30)
    assert only["bytes_a_day"] == pytest.approx(2**30, rel=0.01), "an apply takes a moment"
    assert only["proposed"] == {"path": "size_gb", "value": 15}
    (wrote,) = found["written"]
    assert (wrote["before"], wrote["after"]) == (10, 15)
    text = (project.root / "pull/manifests/main.yaml").read_text()
    assert text == before.replace("size_gb: 10", "size_gb: 15")
    assert project.root.joinpath("manifests/main.yaml").read_text() == before
    assert page.read_text().count("<polyline") == 2
    project.run("forecast", "--within", until, "--propose", ".", code=2)
    assert project.root.joinpath("manifests/main.yaml").read_text() == text
    project.run("apply", "--auto-approve")
    assert sandbox.volume(app)["size_gb"] == 15

"""`reconcile inventory` against a real platform process: what it shows, keeps, proposes, and never sends."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reconciler.cli.main import run
from reconciler.inventory.page import InventoryJson
from reconciler.reports.schema import plan_schema, schema_of
from tests.cli.harness import MUTATIONS, Project, Sandbox, volume
from tests.cli.test_import import Capture, told
from tests.reports.schemas import Schema, closed

SCHEMA = Schema(closed(schema_of(InventoryJson, "reconciler inventory")))
PRICES = "kind,region,unit,price\nVolume,,GB-month,0.15\nSnapshot,,GB-month,0.08\n"


@pytest.fixture
def here(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Verbs run in this process."""
    project.enter(monkeypatch)
    return project


def test_all_that_is_there_is_shown_in_each_format_by_get_alone(
    here: Project, sandbox: Sandbox, app: str, capsys: Capture
) -> None:
    here.write(volume(app))
    (here.root / "prices.csv").write_text(PRICES)
    told(capsys, "apply", "--auto-approve")
    stray = sandbox.make_volume(app, "stray", size_gb=20)
    sandbox.call("POST", f"/v1/apps/{app}/volumes/{stray}/snapshots")
    sandbox.advance(60)
    sandbox.machine(app, sandbox.volumes(app)[0]["id"])
    reports = ("--report", "html=x.html", "--report", "openmetrics=x.prom", "--report", "text=x.txt")
    with sandbox.recording() as requests:
        found = told(capsys, "inventory", "--prices", "prices.csv", *reports)
    assert {method for method, _ in requests}.isdisjoint(MUTATIONS)
    assert SCHEMA.problems(found) == []
    by_name = {each["name"]: each for each in found["objects"]}
    assert (by_name["data"]["owner"], by_name["data"]["attached"]) == ("declared", True)
    assert (by_name["stray"]["owner"], by_name["stray"]["attached"]) == ("undeclared", False)
    assert by_name["stray"]["monthly"] == "3.00"
    assert by_name["stray"]["copies"]["count"] == 1
    assert by_name["stray"]["size_gb"] * 2**30 == by_name["stray"]["total_bytes"]
    assert f"Volume stray ({stray}): undeclared" in Path("x.txt").read_text()
    assert f"<td>Volume stray ({stray})</td>" in Path("x.html").read_text()
    numbers = {
        (sample.name, sample.labels["owner"]): sample.value
        for family in text_string_to_metric_families(Path("x.prom").read_text())
        for sample in family.samples
        if sample.labels["place"] == app
    }
    assert numbers["reconciler_inventory_objects", "declared"] == 1
    assert numbers["reconciler_inventory_detached_objects", "undeclared"] == 1
    assert numbers["reconciler_inventory_size_gigabytes", "undeclared"] == 20


def test_looks_are_kept_on_request_and_a_volume_unused_for_a_week_is_removed_by_two_applies(
    here: Project, sandbox: Sandbox, app: str, capsys: Capture
) -> None:
    here.write(volume(app))
    told(capsys, "apply", "--auto-approve")
    stray = sandbox.make_volume(app, "stray")

    def stray_now(*options: str) -> Any:
        found = told(capsys, "inventory", *options)
        return next(each for each in found["objects"] if each["id"] == stray), found["files"]

    assert "detached_since" not in stray_now()[0], "nothing was recorded"
    for _ in range(8):
        stray_now("--record")
        sandbox.advance(86400)
    assert "detached_since" in stray_now()[0]
    item, files = stray_now("--propose-removal", "manifests/removals")
    assert (item["removal"], files) == ("proposed", [f"manifests/removals/{app}.yaml"])
    written = Path(files[0]).read_text()
    assert "lifecycle:\n  deletion: delete\n" in written
    assert f"  id: {stray}\n" in written
    plan = told(capsys, "plan")
    assert [(each["action"], each["id"]) for each in plan["changes"]] == [("adopt", stray)]
    assert stray_now("--propose-removal", "manifests/removals")[1] == [], "it is declared now"
    told(capsys, "apply", "--auto-approve")
    Path(files[0]).unlink()
    assert run(["apply", "--auto-approve"]) == 1, "the delete needs its own approval"
    capsys.readouterr()
    told(capsys, "apply", "--auto-approve", "--approve-delete", f"Volume/{app}/stray")
    assert [path for _, path in sandbox.mutations_of(app)][-2:] == [
        f"volumes/{stray}/snapshots",
        f"volumes/{stray}",
    ]


def test_the_controller_keeps_looks_too(here: Project, sandbox: Sandbox, app: str, capsys: Capture) -> None:
    here.write(volume(app))
    told(capsys, "apply", "--auto-approve")
    here.run("controller", "--once")  # a process of its own: it sets up the log
    capsys.readouterr()
    (item,) = told(capsys, "inventory")["objects"]
    assert "detached_since" in item


def test_a_plan_shows_the_price_where_the_settings_name_a_file(
    here: Project, sandbox: Sandbox, app: str, capsys: Capture
) -> None:
    here.write(volume(app, spec="region: ams, size_gb: 20"))
    here.write("manifests: [manifests]\nprices: prices.csv\n", "reconcile.yaml")
    prices = here.root / "prices.csv"
    prices.write_text(PRICES)
    plan = told(
        capsys, "plan", "--report", "markdown=x.md", "--report", "html=x.html", "--report", "text=x.txt"
    )
    assert Schema(closed(plan_schema())).problems(plan) == []
    assert plan["price"] == {"monthly": "3.00"}
    for file in ("x.md", "x.html", "x.txt"):
        assert "Price of a month: +3.00." in Path(file).read_text()
    prices.write_text("kind,region,unit,price\nVolume,,GB-month,cheap\n")
    assert run(["plan"]) == 1
    assert "prices.csv:2:18" in capsys.readouterr().err
    prices.unlink()
    prices.symlink_to("/etc/hostname")
    assert run(["plan"]) == 1
    assert "outside-root" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--prices", "none.csv"], 1, "cannot read"),
        (["--propose-removal", ""], 64, "--propose-removal"),
        (["--record"], 1, "there is no state"),
        (["-o", "sarif"], 64, "`sarif` is not a format of this report"),
        (["shop"], 64, "unexpected extra argument"),
    ],
)
def test_wrong_input_is_a_message_and_a_code(
    here: Project, app: str, capsys: Capture, options: list[str], code: int, message: str
) -> None:
    here.write(volume(app))
    if options == ["--record"]:
        shutil.rmtree(here.root / ".reconcile")
    assert run(["inventory", *options]) == code
    assert message in capsys.readouterr().err


def test_what_cannot_be_read_fails_the_verb_and_the_rest_is_shown(
    here: Project, sandbox: Sandbox, app: str, capsys: Capture
) -> None:
    here.write(volume(app) + volume("nowhere"))
    sandbox.make_volume(app, "stray")
    assert run(["inventory", "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["objects"]] == ["stray"]
    assert "unreadable" in {each["code"] for each in found["diagnostics"]}

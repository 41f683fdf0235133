"""Moved manifests of the base, as an environment has them: elsewhere, or about what it takes out."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import pytest

from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Address
from reconciler.core.steps import Plan
from reconciler.manifests.load import Loaded, load
from reconciler.moves.compare import LEFT
from reconciler.planning.declared import Desired
from reconciler.project.plan import make_plan
from tests.documents import plan_document
from tests.environments.case import build_of, load_prod, write_project
from tests.inprocess import Command, volume
from tests.kinds.case import NOW, LivePlatform, project_of

ELSEWHERE = '"*/shop/*": {metadata: {app: shop-prod}}\n'


def moved(source: str, target: str, name: str = "m") -> str:
    spec = f'{{from: "{source}", to: "{target}"}}'
    return f"---\napiVersion: reconciler/v1\nkind: Moved\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def recorded(
    *addresses: str, deletion: str = "retain", applied: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    named = {address: Address.parse(address).name for address in addresses}
    return {
        address: {
            "id": f"vol_{name}_{number}",
            "applied": {"name": name, "region": "ams", **applied},
            "lifecycle": {"deletion": deletion},
        }
        for number, (address, name) in enumerate(named.items())
    }


def planned(root: Path, loaded: Loaded, records: Mapping[str, Any]) -> Plan:
    assert not has_errors(loaded.diagnostics), loaded.diagnostics
    live: dict[str, list[Any]] = {f"/v1/apps/{app}/volumes": [] for app in ("shop", "shop-prod", "web")}
    for address, record in records.items():
        fields = {"id": record["id"], "name": record["applied"]["name"], "size_gb": 10, "region": "ams"}
        live[f"/v1/apps/{Address.parse(address).app}/volumes"].append({"state": "created", **fields})
    platform = LivePlatform(live, datetime.fromisoformat(NOW))
    desired = Desired(loaded.resources, loaded.diagnostics, policies=loaded.policies)
    return anyio.run(make_plan, project_of({"records": records}, root, (), platform), desired)


def test_the_entry_that_an_environment_offers_counts_in_all_of_them(tmp_path: Path) -> None:
    root = write_project(tmp_path, {"manifests/a.yaml": volume("a2"), "overlays/prod/p.yaml": ELSEWHERE})
    records = recorded("Volume/shop-prod/a1")
    plan = planned(root, load_prod(root), records)
    (told,) = plan.diagnostics
    assert told.message.startswith("`Volume/shop-prod/a2` may be `Volume/shop-prod/a1` ")
    assert "reconcile state mv Volume/shop-prod/a1 Volume/shop-prod/a2" in told.help
    entry = re.search(r"apiVersion:.*?\nspec: [^\n]*\n", told.help, re.DOTALL)
    assert entry is not None
    assert "add this manifest" in told.help
    write_project(root, {"manifests/m.yaml": entry[0]})
    prod = planned(root, load_prod(root), records)
    assert (prod.changes, [str(each.target) for each in prod.moves]) == ((), ["Volume/shop-prod/a2"])
    base = load([str(root / "manifests")], root=root)
    assert planned(root, base, recorded("Volume/shop/a1")).changes == ()


def test_the_entry_for_what_only_an_environment_has_counts_beside_it(tmp_path: Path) -> None:
    root = write_project(
        tmp_path,
        {
            "manifests/a.yaml": volume("data"),
            "overlays/prod/p.yaml": ELSEWHERE,
            "overlays/prod/own.yaml": volume("own2", app="shop-prod"),
        },
    )
    records = recorded("Volume/shop-prod/own1", "Volume/shop-prod/data")
    (told,) = planned(root, load_prod(root), records).diagnostics
    assert "spec: {from: Volume/shop-prod/own1, to: Volume/shop-prod/own2}" in told.help
    entry = moved("Volume/shop-prod/own1", "Volume/shop-prod/own2")
    write_project(root, {"overlays/prod/m.yaml": entry})
    assert planned(root, load_prod(root), records).changes == ()


def test_entries_that_follow_each_other_do_so_in_another_app(tmp_path: Path) -> None:
    entries = moved("Volume/shop/a", "Volume/shop/b", "one") + moved("Volume/shop/b", "Volume/shop/c", "two")
    root = write_project(
        tmp_path,
        {"manifests/a.yaml": volume("c"), "manifests/m.yaml": entries, "overlays/prod/p.yaml": ELSEWHERE},
    )
    plan = planned(root, load_prod(root), recorded("Volume/shop-prod/a"))
    assert (plan.changes, [str(each.target) for each in plan.moves]) == ((), ["Volume/shop-prod/c"])


TAKEN_OUT = {
    "whole": (volume("a2"), moved("Volume/shop/a1", "Volume/shop/a2"), "Volume/shop/a2: null\n"),
    "at the end of two": (
        volume("a3"),
        moved("Volume/shop/a1", "Volume/shop/a2", "one") + moved("Volume/shop/a2", "Volume/shop/a3", "two"),
        "Volume/shop/a3: null\n",
    ),
    "one of a count": (
        volume("c", more=", count: 3"),
        moved("Volume/shop/a1", "Volume/shop/c[2]"),
        "Volume/shop/c: {spec: {count: 1}}\n",
    ),
    "with all of its app": (volume("a2"), moved("Volume/shop/a1", "Volume/shop/a2"), '"*/shop/*": null\n'),
}


@pytest.mark.parametrize("deletion", ["retain", "delete"])
@pytest.mark.parametrize("case", TAKEN_OUT)
def test_a_move_to_what_an_environment_takes_out_changes_nothing_there(
    tmp_path: Path, case: str, deletion: str
) -> None:
    manifests, entries, overlay = TAKEN_OUT[case]
    files = {"manifests/a.yaml": manifests + volume("other", "web"), "overlays/prod/p.yaml": overlay}
    root = write_project(tmp_path, files)
    others = recorded("Volume/web/other", *(["Volume/shop/c", "Volume/shop/c[1]"] if "count" in case else ()))
    records = recorded("Volume/shop/a1", deletion=deletion) | others
    without = planned(root, load_prod(root), records)
    assert plan_document(without)["summary"]["delete"] == (deletion == "delete")
    write_project(root, {"manifests/m.yaml": entries})
    loaded = load_prod(root)
    assert planned(root, loaded, records) == without
    assert "Moved" not in build_of(loaded)
    # Back again, it is the same object, also when an apply has seen it leave.
    write_project(root, {"overlays/prod/p.yaml": "# nothing differs\n"})
    back = planned(root, load_prod(root), recorded("Volume/shop/a1", applied={LEFT: True}) | others)
    assert (back.changes, back.steps, [str(move.source) for move in back.moves]) == (
        (),
        (),
        ["Volume/shop/a1"],
    )


def test_a_move_to_nowhere_is_a_mistake_in_an_environment_too(tmp_path: Path) -> None:
    root = write_project(
        tmp_path,
        {
            "manifests/a.yaml": volume("a2") + volume("a3"),
            "manifests/m.yaml": moved("Volume/shop/a1", "Volume/shop/a4"),
            "overlays/prod/p.yaml": "Volume/shop/a3: null\nVolume/shop/a2: {spec: {size_gb: 20}}\n",
        },
    )
    assert [each.code for each in load_prod(root).diagnostics] == ["move-undeclared"]


def test_what_is_built_for_an_environment_holds_no_move_to_what_it_takes_out(reconcile: Command) -> None:
    manifests, entries, overlay = TAKEN_OUT["whole"]
    reconcile.write("manifests/a.yaml", manifests + volume("kept") + entries)
    reconcile.write("overlays/prod/p.yaml", overlay)
    reconcile.write("built/a.yaml", reconcile("build --env prod").out)
    assert reconcile("validate built --env base").out == "Valid: 1 resource in 1 file.\n"

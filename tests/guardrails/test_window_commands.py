"""Windows and freezes as somebody types them: on a demo, with real files, commands and signatures."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.advice.laid_out import laid_out
from tests.approvals.people import make
from tests.guardrails.limits import closed_now, read, written
from tests.guardrails.test_commands import grow, guard
from tests.inprocess import Command

DATA = "Volume/shop/data"


def test_what_waits_is_told_and_left_and_a_signature_lets_it_go(shop: Command, tmp_path: Path) -> None:
    ana = make(tmp_path, "ana")
    (shop.root / "allowed_signers").write_text(ana.line())
    guard(shop, closed_now())
    shop("apply --yes")
    grow(shop, 30)
    text = shop("plan --detailed-exitcode", code=2).out
    assert "      waits for nights, next open " in text
    assert "Plan: 1 to extend; 1 of them waiting" in text
    document = json.loads(shop("plan -o json").out)
    (change,) = document["changes"]
    assert change["waits"]["window"] == "nights"
    assert document["summary"]["waits"] == 1
    left = shop("apply --yes -o json", code=4)
    assert [result["outcome"] for result in json.loads(left.out)["results"]] == ["pending"]
    refused = shop(f"apply --yes --now {DATA}", code=1)
    assert f"error[window-closed]: `{DATA}` waits for nights" in refused.err
    shop("plan --out plan.json")
    signed = shop(f"approve plan.json --yes --reason full --key {ana.key} --override {DATA}").out
    apply = "apply --plan plan.json --approval plan.json.ana.approval"
    assert f"Apply it with: reconcile {apply} --now {DATA}\n" in signed
    shop(apply, code=4)  # nobody steps over a window unless told to, and the approval is not used up
    assert "1 done" in shop(f"{apply} --now {DATA}").out
    assert "No changes" in shop("plan").out


def test_a_freeze_holds_every_change_and_ends_by_itself(shop: Command) -> None:
    now = datetime.now(UTC)
    spec: dict[str, Any] = {"reason": "sale"}
    spec |= {"from": (now - timedelta(days=1)).isoformat(), "until": (now + timedelta(days=9)).isoformat()}
    guard(shop, written("Freeze", spec, "sale"))
    grow(shop, 30)
    assert "waits for sale, next open" in shop("apply --yes", code=4).out
    ahead = shop("plan --at +20d").out
    assert f"{DATA}: does not wait for sale any more" in ahead
    assert f"{DATA}: waits for sale" in shop("plan --at +2d").out
    guard(shop, written("Freeze", spec | {"until": (now - timedelta(hours=1)).isoformat()}, "sale"))
    assert "warning[rules-loosened]" not in shop("apply --yes").err  # no run had it remembered


def test_bad_files_are_diagnostics_at_their_place(tmp_path: Path) -> None:
    good: dict[str, Any] = {"impacts": ["restart"], "opens": "0 22 * * *", "for": "6h", "timezone": "UTC"}
    sale: dict[str, Any] = {"from": "2026-11-26T00:00Z", "until": "2026-11-30T12:00Z", "reason": "sale"}
    for kind, spec, said, place in (
        ("Window", good | {"opens": "0 25 * * *"}, "bad hour", (9, 10)),
        ("Window", good | {"opens": "0 22 * *"}, "five fields", (9, 10)),
        ("Window", good | {"opens": "0 0 30 2 *"}, "bad day-of-month", (9, 10)),
        ("Window", good | {"timezone": "Europe/Berlln"}, "IANA name", (11, 13)),
        ("Window", good | {"timezone": "../../etc/passwd"}, "IANA name", (11, 13)),
        ("Window", good | {"for": "31d"}, "at most 30d", (10, 8)),
        ("Window", good | {"impacts": ["reboot"]}, "reboot", (8, 5)),
        ("Freeze", sale | {"until": "2026-11-25T00:00Z"}, "ends before it begins", (8, 10)),
        ("Freeze", sale | {"until": "2026-11-30T12:00"}, "with an offset", (8, 10)),
        ("Freeze", sale | {"from": "soon"}, "with an offset", (7, 9)),
        ("Freeze", sale | {"except": ["nothing"]}, "nothing", (11, 5)),
    ):
        _, problems = read(tmp_path, written(kind, spec))
        (problem,) = problems
        assert said in f"{problem.message} {problem.label} {problem.help}", problem
        assert problem.span is not None
        assert problem.span[:3] == ("guardrails/some.yaml", *place), problem
    limits, problems = read(tmp_path, written("Window", good) + written("Freeze", sale))
    assert problems == ()
    assert [str(limit) for limit in limits] == ["Window/one", "Freeze/one"]


def test_where_the_library_is_missing_a_window_is_an_error_that_names_the_extra(
    shop: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard(shop, closed_now())
    monkeypatch.setitem(sys.modules, "cronsim", None)
    for verb in ("validate", "plan", "apply --yes"):
        assert "pip install 'reconciler[policy] @ WHEEL'" in shop(verb, code=1).err


OWED = """
manifests: |
  apiVersion: reconciler/v1
  kind: Volume
  metadata: {name: data, app: shop}
  spec: {size_gb: 20}
  lifecycle: {restart_within: 14d}
records:
  Volume/shop/data:
    id: vol_1
    applied: {name: data, size_gb: 20}
    lifecycle: {restart_within: 14d}
    obligations: [{because: extended from 10 to 20 GB, since: "2026-04-24T00:00:00+00:00"}]
live:
  /v1/apps/shop/volumes:
    - {id: vol_1, name: data, state: created, size_gb: 20, region: ams, attached_machine_id: 5e1ec7edca5e42}
  /v1/apps/shop/volumes/vol_1:
    {id: vol_1, name: data, state: created, size_gb: 20, region: ams, attached_machine_id: 5e1ec7edca5e42}
  /v1/apps/shop/volumes/vol_1/snapshots: []
"""


@pytest.mark.parametrize(
    ("now", "code"), [("2026-05-07T23:59:00+00:00", 0), ("2026-05-08T00:00:00+00:00", 2)]
)
def test_what_is_owed_has_its_dates_and_drift_exits_2_once_it_is_overdue(
    now: str, code: int, reconcile: Command
) -> None:
    spec = {"impacts": ["restart"], "opens": "0 22 * * 1-5", "for": "6h", "timezone": "Europe/Berlin"}
    with laid_out({**yaml.safe_load(OWED), "now": now}, reconcile):
        reconcile.write("guardrails/nights.yaml", written("Window", spec, "nights"))
        dates = f"earliest {now[:10]} {now[11:16]} UTC, at the latest 2026-05-08 00:00 UTC"  # it is open
        for verb, ended in (("drift", code), ("plan", 0), ("show Volume/shop/data", 0), ("apply --yes", 0)):
            assert dates in reconcile(verb, code=ended).out, verb
        assert ("warning[owed-overdue]" in reconcile("plan").err) is bool(code)
        (owed,) = json.loads(reconcile("plan -o json").out)["owed"]
        assert owed["forced"].startswith("2026-05-08T00:00:00")

"""Budgets as somebody types them: on a demo, with real files, commands, a real platform and signatures."""

import json
from pathlib import Path

from tests.approvals.people import make
from tests.guardrails.limits import written
from tests.guardrails.test_commands import guard
from tests.inprocess import Command, volume


def budget(shop: Command, **most: int) -> None:
    guard(shop, written("Budget", {"window": "24h", "most": most}, "a-day"), "limits.yaml")


def test_an_apply_over_the_budget_sends_nothing_and_tells_what_used_it_up(shop: Command) -> None:
    budget(shop, creates=1)
    shop.write("manifests/more.yaml", volume("more"))
    for verb in ("plan", "apply --yes", "apply --yes --target Volume/shop/more"):
        ended = shop(verb, code=1)
        assert "error[over-budget]: `Budget/a-day` allows `creates: 1` in 24h" in ended.err
        assert "this plan needs 1" in ended.err
        assert "note: used 1: 2" in ended.err
        assert "enough is free again at 2" in ended.err
    told = json.loads(shop("plan -o json", code=1).out)["diagnostics"]
    (found,) = [each for each in told if each["severity"] == "error"]
    assert found["addresses"] == ["Volume/shop/more"]
    assert "Volume/shop/more" not in shop("state list").out


def test_a_saved_plan_of_before_the_budget_does_not_get_around_it(shop: Command) -> None:
    shop.write("manifests/more.yaml", volume("more"))
    shop("plan --out plan.json")
    budget(shop, creates=0)
    assert "error[over-budget]" in shop("apply --plan plan.json", code=1).err
    (shop.root / "guardrails/limits.yaml").unlink()
    shop("apply --plan plan.json")


def test_people_sign_what_a_young_state_does_not_know(shop: Command, tmp_path: Path) -> None:
    ana = make(tmp_path, "ana")
    (shop.root / "allowed_signers").write_text(ana.line())
    budget(shop, creates=20)
    shop.write("manifests/more.yaml", volume("more"))
    assert "error[budget-unknown]" in shop("apply --yes", code=1).err
    assert "warning[budget-unknown]" in shop("plan --out plan.json").err
    shop(f"approve plan.json --yes --reason new --key {ana.key} --override a-day")
    shop("apply --plan plan.json --approval plan.json.ana.approval")
    assert "Volume/shop/more" in shop("state list").out


def test_validate_names_a_mistake_in_a_budget(shop: Command) -> None:
    guard(shop, written("Budget", {"window": "40d", "most": {"creates": -1}}), "limits.yaml")
    told = shop("validate", code=1).err
    assert "guardrails/limits.yaml:" in told
    assert "expected a time such as 30m, 24h or 7d, at most 30d" in told
    guard(shop, written("Budget", {"window": "1d", "most": {}}), "limits.yaml")
    assert "a budget limits at least one line" in shop("validate", code=1).err

"""Guardrails as somebody types them: on a demo, with real files, commands and signatures."""

import json
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from tests.approvals.people import make
from tests.guardrails.limits import GROWTH, written
from tests.inprocess import Command
from tests.revisions.repository import commit, git


@pytest.fixture
def guarded(shop: Command) -> Command:
    """A demo with one rule about growth."""
    guard(shop, written("Guardrail", GROWTH | {"level": "overridable"}, "growth"))
    return shop


def guard(shop: Command, text: str, name: str = "growth.yaml") -> Path:
    file = shop.root / "guardrails" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def grow(shop: Command, size: int) -> None:
    file = shop.root / "manifests/data.yaml"
    file.write_text(file.read_text().replace("size_gb: 10", f"size_gb: {size}"))


def test_a_signed_plan_may_step_over_an_overridable_rule(guarded: Command, tmp_path: Path) -> None:
    ana = make(tmp_path, "ana")
    (guarded.root / "allowed_signers").write_text(ana.line())
    guarded("apply --yes")
    grow(guarded, 30)
    ended = guarded("plan --out plan.json")
    assert "warning[refused-by-guardrail]" in ended.err
    assert "approve FILE --override growth" in ended.err
    ended = guarded("apply --yes", code=1)
    assert "error[refused-by-guardrail]" in ended.err
    sign = f"approve plan.json --yes --reason sale --key {ana.key}"
    assert "does not ask to override a guardrail `other`" in guarded(f"{sign} --override other", code=64).err
    assert "overrides    growth" in guarded(f"{sign} --override growth").err
    guarded("apply --plan plan.json --approval plan.json.ana.approval")
    assert "No changes" in guarded("plan").out


def test_a_mandatory_rule_is_in_every_format(guarded: Command) -> None:
    guard(guarded, written("Guardrail", GROWTH, "growth"))
    grow(guarded, 30)
    guarded("plan --report sarif=plan.sarif --report junit=plan.xml --report markdown=plan.md", code=1)
    for file in ("plan.sarif", "plan.xml", "plan.md"):
        said = unescape((guarded.root / file).read_text())
        assert "refused-by-guardrail" in said
        assert "guardrails/growth.yaml" in said
    found = json.loads(guarded("plan -o json", code=1).out)["diagnostics"]
    assert [(item["code"], item["file"]) for item in found] == [
        ("refused-by-guardrail", "manifests/data.yaml")
    ]


def test_validate_and_every_verb_that_plans_name_a_mistake_in_a_rule(guarded: Command) -> None:
    guard(guarded, written("Guardrail", GROWTH | {"require": "change.nonsense == 3"}))
    for verb in ("validate", "plan", "apply --yes", "drift", "policy backtest", "policy test"):
        ended = guarded(verb, code=1)
        assert "error[guardrail-expression]" in ended.err
        assert "guardrails/growth.yaml:" in ended.err


def test_a_guardrail_among_manifests_is_an_error(shop: Command) -> None:
    (shop.root / "manifests/rule.yaml").write_text(written("Guardrail", GROWTH))
    assert "error[guardrail-elsewhere]" in shop("validate", code=1).err


def test_manifests_in_the_root_and_guardrails_beside_them(guarded: Command) -> None:
    settings = guarded.root / "reconcile.yaml"
    settings.write_text(f"{settings.read_text()}\nmanifests: [.]\n")
    assert "Valid: 3 resources in 2 files." in guarded("validate").out
    settings.write_text(f"{settings.read_text()}guardrails: [elsewhere/*.yaml]\n")
    assert "error[guardrail-elsewhere]" in guarded("validate", code=1).err


def test_an_untrusted_change_brings_no_rules_of_its_own(guarded: Command) -> None:
    rule = guard(guarded, written("Guardrail", GROWTH, "growth"))
    git(guarded.root, "init", "-q", "-b", "main")
    commit(guarded.root)
    rule.unlink()
    grow(guarded, 30)
    assert "error[refused-by-guardrail]" in guarded("plan --untrusted HEAD", code=1).err


def test_the_rules_of_the_base_count(guarded: Command) -> None:
    rule = guard(guarded, written("Guardrail", GROWTH, "growth"))
    git(guarded.root, "init", "-q", "-b", "main")
    commit(guarded.root)
    rule.unlink()
    grow(guarded, 30)
    commit(guarded.root)
    ended = guarded("apply --yes --base HEAD^", code=1)
    assert "error[refused-by-guardrail]" in ended.err
    assert "warning[rules-loosened]" in ended.err


def test_cases_are_judged_and_wrong_verdicts_named(guarded: Command) -> None:
    grow(guarded, 30)
    world = {
        "apps": [{"name": "shop"}],
        "volumes": [{"app": "shop", "name": "data", "size_gb": 10, "region": "ams"}],
    }
    case = {"manifests": ["../manifests/data.yaml"], "world": world, "verdicts": {"growth": "refused"}}
    file = guard(guarded, json.dumps(case), "grows.case.yaml")
    assert "1 case, 0 with another verdict" in guarded("policy test guardrails").out
    guarded("plan --out plan.json")
    file.write_text(json.dumps({"plan": "../plan.json", "verdicts": {"growth": "passed"}}))
    ended = guarded("policy test", code=1)
    assert "growth: wanted passed, found refused" in ended.out
    found = json.loads(guarded("policy test -o json", code=1).out)["cases"]
    assert found[0]["wrong"] == {"growth": {"wanted": "passed", "found": "refused"}}
    file.write_text(json.dumps({"verdicts": {"growt": "passed"}}))
    assert "there is no guardrail `growt`" in guarded("policy test", code=1).err


def test_a_case_gives_no_verdict_of_a_budget(guarded: Command) -> None:
    budget = "kind: Budget\nmetadata: {name: a-day}\nspec: {window: 24h, most: {creates: 1}}\n"
    guarded.write("guardrails/a-day.yaml", f"apiVersion: reconciler/v1\n{budget}")
    guarded.write("guardrails/a.case.yaml", "manifests: [../manifests]\nverdicts: {a-day: passed}\n")
    assert "there is no guardrail `a-day`" in guarded("policy test", code=1).err


def test_the_past_is_judged_by_the_rules_of_today(guarded: Command) -> None:
    grow(guarded, 20)
    guarded("apply --yes")
    ended = guarded("policy backtest")
    assert "2 runs judged, 0 would have been refused." in ended.out
    assert "Never matched" not in ended.out
    strict = written("Guardrail", GROWTH | {"require": "change.after.size_gb < 15"}, "strict")
    labelled = written("Guardrail", GROWTH | {"require": "change.labels.tier == 'lab'"}, "labelled")
    unused = written("Guardrail", GROWTH | {"actions": ["delete"]}, "unused")
    guard(guarded, strict + labelled + unused)
    found = json.loads(guarded("policy backtest --since 90d -o json").out)["backtest"]
    assert found["never_matched"] == ["unused"]
    (judged,) = found["judged"]
    assert [item["rule"] for item in judged["refused"]] == ["strict"]
    assert [(item["rule"], item["why"]) for item in judged["not_recorded"]] == [
        ("labelled", "`change.labels` is not known")
    ]


def test_a_project_without_guardrails_imports_nothing_for_them(shop: Command) -> None:
    code = (
        "import sys; from reconciler.cli.main import run; run(['plan']);"
        "print(sorted(name for name in sys.modules if 'cel_expr' in name or 'guardrails.' in name))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=shop.root, capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines()[-1] == "['reconciler.guardrails.limit']"

"""5,000 random plans and rule sets against a straightforward judge, and planted mistakes that it notices."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.guardrails import engine, rules, variables
from reconciler.guardrails.engine import Undecided
from tests.guardrails.oracle import differences, random_rule, random_world


@pytest.mark.parametrize("first", range(0, 5_000, 1_000))
def test_both_judges_say_the_same(first: int) -> None:
    assert [told for seed in range(first, first + 1_000) for told in differences(seed)] == []


def test_the_sets_are_not_trivial() -> None:
    verdicts = {"false": 0, "undecided": 0}
    for seed in range(300):
        chance = random.Random(seed)
        world, rule = random_world(chance), random_rule(chance)
        judged = rules.judge_rules([rule.limit("r")], world.plan, world.resources, world.records)
        for finding in judged.findings:
            verdicts[finding.verdict] += 1
    assert min(verdicts.values()) > 30


def _passes_what_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    real = engine.remembered

    def lenient(text: str, types: Any) -> Any:
        expression = real(text, types)

        class Lenient:
            names, of_plan = expression.names, expression.of_plan

            def __call__(self, value_of: Callable[[str], Any]) -> Any:
                found = expression(value_of)
                return True if isinstance(found, Undecided) else found

        return Lenient()

    monkeypatch.setattr(rules, "remembered", lenient)


def _forgets_the_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    real = rules._Rule.selects

    def careless(self: Any, kind: str, actions: Any) -> bool:
        self._actions = frozenset()
        return real(self, kind, actions)

    monkeypatch.setattr(rules._Rule, "selects", careless)


def _takes_after_for_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables.PlanValues, "_before", variables.PlanValues._after)


def _ignores_when(monkeypatch: pytest.MonkeyPatch) -> None:
    real = rules._Rule._expressions
    monkeypatch.setattr(rules._Rule, "_expressions", lambda self, kind: (None, real(self, kind)[1]))


@pytest.mark.parametrize(
    "mistake", [_passes_what_is_unknown, _forgets_the_actions, _takes_after_for_before, _ignores_when]
)
def test_a_planted_mistake_shows(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert any(differences(seed) for seed in range(300))

"""A rule with a mistake fails while it is read, at its place: never when something is applied."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.guardrails import engine
from reconciler.guardrails.variables import types_of
from tests.guardrails.limits import GROWTH, read, written

TYPED = {"kinds": ["Volume"], "message": "no"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"require": "change.nonsense == 3"}, "undeclared reference to 'change.nonsense'"),
        ({"require": 'change.app == "a" && change.after.sizegb > 3'}, "undeclared reference"),
        ({"require": "change.after.plan == 'basic'"}, "undeclared reference"),  # of another kind
        ({"require": "change.app > 3"}, "found no matching overload"),
        ({"require": "change.after.size_gb > 'x'"}, "found no matching overload"),
        ({"require": "change.steps.all(call, call.nonsense == 'x')"}, "undefined field 'nonsense'"),
        ({"require": "has(change.after.auto_backup_enabled)"}, "has() is for keys of maps"),
        ({"require": "change.app"}, "a condition is true or false"),
        ({"require": "1 +"}, "Syntax error"),
        ({"require": "true", "when": "change.after.size_gb"}, "a condition is true or false"),
        ({"require": "resource.spec.size_gb > 3"}, "undeclared reference"),
        ({"judges": "resources", "require": "change.app == 'a'"}, "undeclared reference"),
        ({"kinds": ["Volume", "Secret"], "require": "change.after.size_gb > 3"}, "undeclared reference"),
    ],
)
def test_a_mistake_is_found_where_it_stands(tmp_path: Path, spec: dict[str, Any], message: str) -> None:
    _, problems = read(tmp_path, written("Guardrail", TYPED | spec))
    (problem,) = problems
    assert (problem.code, str(problem.severity)) == ("guardrail-expression", "error")
    assert message in problem.message
    assert problem.span is not None
    assert problem.span.file == "guardrails/some.yaml"


def test_the_place_is_inside_the_expression(tmp_path: Path) -> None:
    expression = "change.app != 'lab' && change.afte.size_gb < 3"
    for quote in ('"', ""):
        text = written("Guardrail", TYPED | {"require": "XXX"}).replace("XXX", f"{quote}{expression}{quote}")
        _, (problem,) = read(tmp_path, text)
        assert problem.span is not None
        line = (tmp_path / "guardrails/some.yaml").read_text().splitlines()[problem.span.line - 1]
        assert line[problem.span.column - 1 :].startswith(".size_gb < 3")


def test_in_several_lines_the_label_says_where(tmp_path: Path) -> None:
    text = written("Guardrail", TYPED | {"require": "XXX"})
    text = text.replace("XXX", "|-\n    change.app != 'lab' &&\n    change.nope == 3")
    _, (problem,) = read(tmp_path, text)
    assert problem.label == "line 2, column 7 of the expression: change.nope == 3"


def test_a_near_name_is_offered(tmp_path: Path) -> None:
    _, (problem,) = read(tmp_path, written("Guardrail", TYPED | {"require": "change.after.size_bg > 3"}))
    assert problem.help == "did you mean `change.after.size_gb`?"
    untyped = {"require": "change.after.size_gb > 3", "message": "no"}
    _, (problem,) = read(tmp_path, written("Guardrail", untyped))
    assert problem.help == "name the `kinds` that this is about: they give fields their types"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"level": "strict"}, "not-allowed"),
        ({"kinds": ["Volum"]}, "not-allowed"),
        ({"actions": ["grow"]}, "not-allowed"),
        ({"judges": "resources"}, "not-allowed"),  # with actions
        ({"require": 3}, "wrong-type"),
        ({"nonsense": 3}, "unknown-field"),
    ],
)
def test_bad_files_are_diagnostics(tmp_path: Path, change: dict[str, Any], code: str) -> None:
    _, problems = read(tmp_path, written("Guardrail", GROWTH | change))
    assert problems[0].code == code
    assert problems[0].span is not None


def test_other_kinds_stand_elsewhere(tmp_path: Path) -> None:
    _, problems = read(tmp_path, written("Volume", {"size_gb": 3}))
    assert [problem.code for problem in problems] == ["unknown-kind"]


def test_without_the_engine_nothing_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    real = builtins.__import__

    def missing(name: str, *arguments: Any) -> Any:
        if name.startswith("cel_expr_python"):
            raise ImportError(name=name)
        return real(name, *arguments)

    engine._environments.cache_clear()
    engine._compiled.cache_clear()
    monkeypatch.setattr(builtins, "__import__", missing)
    _, (problem,) = read(tmp_path, written("Guardrail", GROWTH))
    assert problem.code == "policy-engine-missing"
    assert "pip install 'reconciler[policy] @ WHEEL'" in problem.help


NAMES = {"x": "int?", "y": "text?", "words": "texts", "labels": "map", "calls": "calls", "yes": "bool"}


@pytest.mark.parametrize(
    ("text", "values", "answer"),
    [
        ("x > 3", {"x": 4}, True),
        ("x > 3", {"x": 3}, False),
        ("x > 3", {"x": None}, "`x` is null: compare with `null` first"),
        ("x > 3", {}, "`x` is not known"),
        ("x != null && x > 3", {"x": None}, False),
        ("x == null || x > 3", {"x": None}, True),
        ("yes || x > 3", {"yes": True}, True),  # whatever x is
        ("yes && x > 3", {"yes": True}, "`x` is not known"),
        ("'a' in words", {"words": []}, False),
        ("has(labels.tier) && labels.tier == 'prod'", {"labels": {}}, False),
        ("calls.exists(call, call.body.size_gb > 3)", {"calls": [{"body": {"size_gb": 4}}]}, True),
        ("x / 0 == 1", {"x": 1}, "divide by zero"),
        ("x * 9223372036854775807 > 1", {"x": 3}, "integer overflow"),
    ],
)
def test_false_and_undecided_are_two_things(text: str, values: dict[str, Any], answer: Any) -> None:
    found = engine.compiled(text, NAMES)(values.__getitem__)
    if isinstance(answer, bool):
        assert found is answer
    else:
        assert isinstance(found, engine.Undecided)
        assert answer in found.why


def test_every_kind_has_typed_fields() -> None:
    assert types_of("Volume")["change.after.size_gb"] == "int?"
    assert types_of("Volume")["change.before.from.snapshot_id"] == "text?"
    assert types_of("PostgresCluster")["change.after.postgis_enabled"] == "bool?"
    assert types_of("Volume", resources=True)["resource.spec.compute.kernel_args"] == "texts"
    assert not any(name.startswith("change.after") for name in types_of(""))

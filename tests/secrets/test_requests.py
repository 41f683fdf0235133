"""Every request about secrets is marked: the client keeps of its answer only what is known to be harmless."""

from pathlib import Path

import pytest

from reconciler.core.steps import EACH_VALUE, Call, Plan, Read, SecretRef
from tests.kinds.case import case_name, find_cases, play, read_case

CASES = [path for path in find_cases() if case_name(path).split("/")[1] in ("secret", "extension")]


def requests(plan: Plan) -> list[Call | Read]:
    found: list[Call | Read] = [step.call for step in plan.steps]
    found += [step.wait.read for step in plan.steps if step.wait is not None]
    found += [step.find.read for step in plan.steps if step.find is not None]
    return found + [expected.read for expected in plan.expectations if expected.read is not None]


def test_every_request_about_secrets_is_marked(tmp_path: Path) -> None:
    about: list[Call | Read] = []
    for path in CASES:
        root = tmp_path / path.stem
        root.mkdir(exist_ok=True)
        plan = play(read_case(path), root).plan
        about += [each for each in requests(plan) if "/secrets" in str(each.path)] if plan is not None else []
    assert {type(each) for each in about} == {Call, Read}
    assert {each.method for each in about if isinstance(each, Call)} == {"POST", "DELETE"}
    assert all(each.sensitive for each in about)


@pytest.mark.parametrize("value", [SecretRef("env", "X"), EACH_VALUE], ids=["env", "each"])
def test_a_call_whose_body_holds_a_secret_is_sensitive_whatever_its_kind_says(value: SecretRef) -> None:
    assert Call("PUT", "/v1/anything", {"deep": [{"password": value}]}).sensitive
    assert not Call("PUT", "/v1/anything", {"deep": [{"password": None}]}).sensitive


def test_the_text_of_a_call_never_holds_its_body() -> None:
    assert "hunter2" not in repr(Call("POST", "/v1/apps/shop/secrets/A", {"value": "hunter2"}))

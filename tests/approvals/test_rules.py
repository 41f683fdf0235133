"""Which changes a rule matches, and what the settings refuse."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.approvals.rules import Rule, needed
from reconciler.core.errors import ManifestError
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Impact
from reconciler.core.steps import Call, Loosened, Step, StepEffect
from reconciler.project.settings import find_settings
from tests.reports import plans

DATA = Address("Volume", "data", "shop")


def rule(**when: Any) -> Rule:
    return Rule.model_validate({"when": when})


def matched(change: Change, asked: Rule, *, environment: str = "prod", size: float | None = 10) -> bool:
    plan = replace(plans.EMPTY, changes=(change,))
    return bool(needed([asked], plan, environment, lambda address: size))


def field(path: str, before: Any, after: Any) -> Change:
    return Change(DATA, Action.UPDATE, (FieldChange(path, before, after, Effect.IN_PLACE),))


@pytest.mark.parametrize(
    ("change", "when", "matches"),
    [
        (Change(DATA, Action.DELETE), {"action": "delete"}, True),
        (Change(DATA, Action.CREATE), {"action": "delete"}, False),
        (Change(DATA, Action.UPDATE, also=(Action.EXTEND,)), {"action": "extend"}, True),
        (Change(DATA, Action.UPDATE, impact=Impact.RESTART), {"impact": "restart"}, True),
        (Change(DATA, Action.UPDATE, impact=Impact.DOWNTIME), {"impact": "restart"}, True),
        (Change(DATA, Action.UPDATE, impact=Impact.RESTART), {"impact": "data_loss"}, False),
        (Change(DATA, Action.UPDATE), {"impact": "restart"}, False),
        (field("snapshot_retention", 14, 3), {"lowers": "snapshot_retention"}, True),
        (field("snapshot_retention", 14, None), {"lowers": "snapshot_retention"}, True),
        (field("snapshot_retention", 3, 14), {"lowers": "snapshot_retention"}, False),
        (field("snapshot_retention", None, 3), {"lowers": "snapshot_retention"}, False),
        (field("auto_backup_enabled", True, False), {"lowers": "auto_backup_enabled"}, True),
        (field("auto_backup_enabled", False, True), {"lowers": "auto_backup_enabled"}, False),
        (field("size_gb", 14, 3), {"lowers": "snapshot_retention"}, False),
        (Change(DATA, Action.DELETE), {"action": "delete", "more_than_gb": 9}, True),
        (Change(DATA, Action.DELETE), {"action": "delete", "more_than_gb": 10}, False),
        (Change(DATA, Action.CREATE), {"action": "delete", "more_than_gb": 9}, False),
        (Change(DATA, Action.CREATE), {"environment": "prod"}, True),
        (Change(DATA, Action.CREATE), {"environment": "test"}, False),
        (Change(DATA, Action.NOOP), {"environment": "prod"}, False),
        (Change(DATA, Action.RETAIN), {"environment": "prod"}, False),
    ],
)
def test_a_rule_matches_what_it_says(change: Change, when: dict[str, Any], matches: bool) -> None:
    assert matched(change, rule(**when)) is matches


def test_what_may_have_older_snapshots_is_matched_though_nothing_is_sent() -> None:
    asked = [rule(lowers="snapshot_max_age_h"), rule(environment="prod")]
    plan = replace(plans.EMPTY, loosened=(Loosened(DATA, "snapshot_max_age_h", 24, None),))
    (found,) = needed(asked, plan, "prod", lambda address: 10)
    assert (found.rule, found.addresses) == (asked[0], (DATA,))
    large = [rule(lowers="snapshot_max_age_h", more_than_gb=10)]
    assert needed(large, plan, "prod", lambda address: 10) == []


def test_an_object_of_unknown_size_may_be_large() -> None:
    assert matched(Change(DATA, Action.DELETE), rule(more_than_gb=100), size=None)


def test_what_a_call_does_counts_whatever_its_change_says() -> None:
    step = Step("x", DATA, Call("PUT", "/x"), effect=StepEffect(removes=True))
    plan = replace(plans.EMPTY, changes=(Change(DATA, Action.NOOP),), steps=(step,))
    (found,) = needed([rule(action="delete")], plan, "base", lambda address: None)
    assert found.addresses == (DATA,)


def settings(folder: Path, text: str) -> Any:
    (folder / "reconcile.yaml").write_text(text)
    return find_settings(folder, {}).written.approvals


def test_the_settings_are_read(tmp_path: Path) -> None:
    text = "approvals:\n  rules:\n  - {when: {action: delete, more_than_gb: 10}, from: 2, valid: 30m}\n"
    found = settings(tmp_path, text)
    (only,) = found.rules
    assert (only.people, only.lasts.total_seconds(), str(only)) == (
        2,
        1800,
        "{action: delete, more_than_gb: 10}",
    )
    assert found.signers == "allowed_signers"
    assert settings(tmp_path, "").rules == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("rules:\n  - {when: {}}", 3, "at least one of"),
        ("rules:\n  - {when: {action: noop}}", 3, "one of delete, create,"),
        ("rules:\n  - {when: {impact: online}}", 3, "one of restart, downtime, repoint, data_loss"),
        ("rules:\n  - {when: {action: delete}, from: 0}", 3, "from"),
        ("rules:\n  - {when: {action: delete}, from: true}", 3, "from"),
        ("rules:\n  - {when: {action: delete}, valid: 2}", 3, "valid"),
        ("rules:\n  - {when: {action: delete}, valid: forever}", 3, "24h"),
        ("rules:\n  - {when: {action: delete}, valid: 31d}", 3, "30d"),
        ("rules:\n  - {when: {actoin: delete}}", 3, "actoin"),
        ("rules:\n  - {from: 2}", 3, "when"),
        ("signers: ../elsewhere", 2, "signers"),
        ("signers: /etc/passwd", 2, "signers"),
        ("people: 2", 2, "people"),
    ],
)
def test_what_means_nothing_is_refused_at_its_place(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    with pytest.raises(ManifestError) as refused:
        settings(tmp_path, f"approvals:\n  {text}\n")
    (problem,) = refused.value.diagnostics
    assert problem.span is not None
    assert (problem.code, problem.span.line) == ("bad-setting", line)
    assert message in problem.message + problem.help

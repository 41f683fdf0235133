"""Manifests of drills with mistakes: what is said, and where."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from reconciler.core.diagnostics import Diagnostic
from reconciler.manifests.load import load
from reconciler.policies.drill import undrillable
from tests.drills.stage import ABLE
from tests.execution.stage import cluster, volume

HEAD = "---\napiVersion: reconciler/v1\nkind: RestoreDrill\nmetadata: {name: weekly}\nspec:\n"
CONNECT = "  connect: {user: drill, password_from: {env: P}, database: app}\n"


def said(manifests: str, capabilities: frozenset[str] = ABLE) -> Sequence[Diagnostic]:
    found = load(["-"], root=Path(), stdin=manifests.encode)
    return [*found.diagnostics, *undrillable(found.policies, found.resources, capabilities)]


def told(spec: str, capabilities: frozenset[str] = ABLE, others: str = "") -> tuple[str, str]:
    """The code and message of the only mistake, and the text that it points at, on lines of `spec`."""
    whole = f"{others or volume() + cluster()}{HEAD}{spec}"
    (problem,) = said(whole, capabilities)
    assert problem.span is not None
    line = whole.splitlines()[problem.span.line - 1]
    return f"{problem.code}: {problem.message}", line[problem.span.column - 1 :]


@pytest.mark.parametrize(
    ("spec", "message", "place"),
    [
        ("  of: orders\n", "invalid-value: `of` is not an address", "orders"),
        (
            "  of: PostgresCluster/order\n",
            "unknown-reference: no manifest declares PostgresCluster/order",
            "PostgresCluster/order",
        ),
        (
            "  of: {kind: Volume, app: none}\n",
            "invalid-value: no resource is selected",
            "{kind: Volume, app: none}",
        ),
        (
            "  of: {kind: Volumes}\n",
            "invalid-value: no resource is selected",
            "{kind: Volumes}",
        ),
        (
            '  of: Volume/shop/data\n  schedule: "0 3 * *"\n',
            "invalid-value: `schedule`: expected five fields: minute, hour, day of month, month, day of week",
            '"0 3 * *"',
        ),
        (
            '  of: Volume/shop/data\n  schedule: "0 25 * * *"\n',
            "invalid-value: `schedule`: not a cron expression: bad hour",
            '"0 25 * * *"',
        ),
        (
            "  of: Volume/shop/data\n  from: {before: 1h}\n",
            "capability-missing: `RestoreDrill/weekly` cannot restore a Volume: a volume has snapshots, and "
            "no points in time: write `from: newest`",
            "Volume/shop/data",
        ),
    ],
)
def test_a_mistake_is_told_where_it_stands(spec: str, message: str, place: str) -> None:
    assert told(spec) == (message, place)


@pytest.mark.parametrize(
    ("lacking", "spec", "named"),
    [
        ("postgres.delete", "  of: PostgresCluster/orders\n", "`postgres.delete`"),
        ("postgres.list", "  of: PostgresCluster/orders\n", "`postgres.list`"),
        ("postgres.backups", "  of: PostgresCluster/orders\n", "`postgres.backups`"),
        ("postgres.delete", "  of: {kind: PostgresCluster}\n", "`postgres.delete`"),
    ],
)
def test_a_platform_that_cannot_is_told_with_the_reason(lacking: str, spec: str, named: str) -> None:
    message, place = told(spec, ABLE - {lacking})
    assert message == (
        "capability-missing: `RestoreDrill/weekly` cannot restore a PostgresCluster: "
        f"the platform lacks {named}"
    )
    assert place == spec.removeprefix("  of: ").rstrip()


def test_a_point_in_time_needs_no_list_of_backups() -> None:
    spec = "  of: PostgresCluster/orders\n  from: {before: 1h}\n"
    assert said(volume() + cluster() + HEAD + spec, ABLE - {"postgres.backups"}) == []


def test_a_volume_needs_no_capability() -> None:
    assert said(volume() + HEAD + "  of: Volume/shop/data\n", frozenset()) == []


def test_checks_need_to_know_how_to_ask() -> None:
    checks = '  checks: [{sql: "select 1", expect: "== 1"}]\n'
    message, _ = told(f"  of: PostgresCluster/orders\n{checks}")
    assert message.startswith("missing-field: `checks` need `connect`")
    assert said(f"{cluster()}{HEAD}  of: PostgresCluster/orders\n{CONNECT}{checks}") == []


@pytest.mark.parametrize("expect", ["1000", "> many", "> 1; drop table x", "= 1 or true", ""])
def test_what_is_expected_is_a_comparison(expect: str) -> None:
    checks = f'  checks: [{{sql: "select 1", expect: "{expect}"}}]\n'
    (problem,) = said(f"{cluster()}{HEAD}  of: PostgresCluster/orders\n{CONNECT}{checks}")
    assert problem.code in ("invalid-value", "out-of-range")
    assert problem.span is not None


@pytest.mark.parametrize("source", ["hunter2", "{value: hunter2}", "[hunter2]", "{env: P, file: hunter2}"])
def test_a_literal_password_is_refused_and_never_shown(source: str) -> None:
    connect = f"  connect: {{user: drill, password_from: {source}, database: app}}\n"
    problems = said(f"{cluster()}{HEAD}  of: PostgresCluster/orders\n{connect}")
    assert problems
    assert "hunter2" not in str(problems)


@pytest.mark.parametrize(
    "manifest",
    [
        volume("drill-mine"),
        cluster(name="drill-mine"),
        volume(spec="region: ams, size_gb: 1, name: drill-mine"),
    ],
)
def test_names_that_drills_give_are_reserved(manifest: str) -> None:
    found = load(["-"], root=Path(), stdin=manifest.encode)
    (problem,) = found.diagnostics
    assert (problem.code, "only restore drills give" in problem.message) == ("bad-name", True)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ("  of: PostgresCluster/orders\n  max_age: 31d\n", "max_age"),
        (
            f'  of: PostgresCluster/orders\n{CONNECT}  checks: [{{sql: select 1, expect: "1000"}}]\n',
            "checks.expect",
        ),
    ],
)
def test_a_value_that_is_not_shown_has_an_example(spec: str, field: str) -> None:
    """A password may stand anywhere in the manifest, so that no message repeats a value of it."""
    (problem,) = said(f"{cluster()}{HEAD}{spec}")
    assert problem.help == f"`reconcile explain RestoreDrill.spec.{field}` shows an example"
    assert [str(each) for each in problem.advice] == [f"reconcile explain RestoreDrill.spec.{field}"]


def test_an_index_that_no_count_has_is_not_said_to_be_in_another_app() -> None:
    (problem,) = said(f"{volume()}{HEAD}  of: Volume/shop/data[1]\n")
    assert problem.message == "no manifest declares Volume/shop/data[1]"
    assert problem.help == "there is Volume/shop/data; correct the [index], or raise the `count`"

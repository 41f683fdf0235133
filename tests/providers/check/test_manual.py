"""docs/provider-check.md says what the command does."""

import re
from pathlib import Path

from reconciler.cli.provider import check as command
from reconciler.providers.check.run import GROUPS, line
from tests.providers.check.bout import checked, subject_of
from tests.providers.check.reference import Reference, serving

ROOT = Path(__file__).parents[3]
MANUAL = (ROOT / "docs" / "provider-check.md").read_text(encoding="utf-8")


def test_the_manual_names_every_option_and_every_group() -> None:
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    table = "\n".join(row for row in MANUAL.splitlines() if row.startswith("| `"))
    assert {option for option in options if f"`{option}" not in table and f" {option} " not in table} == set()
    assert {group.name for group in GROUPS if f"| `{group.name}` |" not in table} == set()


def test_the_manual_shows_a_failure_as_it_is_printed() -> None:
    shown = next(block for block in re.findall(r"```text\n(.*?)```", MANUAL, re.DOTALL) if "FAIL" in block)
    with serving(Reference("gives a number in config", polls=0)) as app:
        (result,) = checked(subject_of(app), "calls: POST*").results
    printed = line(result).replace(app.url, "http://127.0.0.1:8080")
    assert _still(shown) == _still(printed)


def _still(text: str) -> list[str]:
    """The lines with their ids levelled, and the sent body only as far as the manual shows it."""
    levelled = re.sub(r"check-[0-9a-f]{12}-\d+", "check-ID", text.strip())
    return [line_.partition('"organization_id"')[0] for line_ in levelled.splitlines()]

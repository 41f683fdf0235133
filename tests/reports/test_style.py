"""How reports look on a terminal: wrapped between words, in colours that only add to the words."""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reconciler.core.model import Action, Impact
from reconciler.reports.formats.text import render_drift, render_plan, render_results
from reconciler.reports.report import ApplyReport, DriftReport
from reconciler.reports.style import PLAIN, WIDEST, Style, Tone
from tests.reports.plans import CHANGES, DRIFT, EMPTY, OWED, PLAN, RESULTS

CODE = re.compile(r"\x1b\[\d*m")
RED = f"\x1b[{Tone.LOSS}m"
RENDERED: tuple[Callable[[Style], str], ...] = (
    lambda style: render_plan(PLAN, style),
    lambda style: render_plan(EMPTY, style),
    lambda style: render_drift(DriftReport(plan=DRIFT, style=style)),
    lambda style: render_results(ApplyReport(plan=EMPTY, results=RESULTS, owed=OWED, style=style)),
)


@pytest.mark.parametrize("rendered", RENDERED)
@pytest.mark.parametrize("columns", [40, 80, 160])
def test_wrapping_breaks_no_word_and_loses_none(rendered: Callable[[Style], str], columns: int) -> None:
    assert rendered(Style(columns)).split() == rendered(PLAIN).split()


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_only_what_must_stay_whole_is_wider_than_the_terminal(columns: int) -> None:
    wide = [
        line for line in render_plan(PLAN, Style(columns)).splitlines() if len(line) > min(columns, WIDEST)
    ]
    assert [line for line in wide if len(line.split()) > 1 and "reconcile " not in line] == []


def test_a_line_goes_on_further_in() -> None:
    style = Style(40)
    text = style.line(2, "one two three four five six seven eight nine ten", hang=4)
    assert text == "  one two three four five six seven\n      eight nine ten"


def test_a_command_is_kept_whole() -> None:
    style = Style(40)
    text = style.line(2, "if it is gone, run `reconcile state forget Volume/shop/data` at once")
    assert text == "  if it is gone, run\n      `reconcile state forget Volume/shop/data`\n      at once"


def test_what_stands_side_by_side_is_kept_together() -> None:
    text = Style(40).line(0, "a" * 30, " ", ("b" * 9, Tone.STRONG), ":")
    assert text == f"{'a' * 30}\n    {'b' * 9}:"


def test_wide_characters_take_two_columns() -> None:
    assert Style(40).line(0, f"{'資' * 18} word") == f"{'資' * 18}\n    word"


def test_off_a_terminal_no_line_is_wrapped() -> None:
    assert PLAIN.line(2, "word " * 100 + "end") == f"  {'word ' * 100}end"


@pytest.mark.parametrize("rendered", RENDERED)
def test_colours_only_add_to_the_words(rendered: Callable[[Style], str]) -> None:
    coloured = rendered(Style(80, colour=True))
    assert CODE.sub("", coloured) == rendered(Style(80))
    assert CODE.search(coloured)


def test_a_plan_is_red_only_where_something_is_lost() -> None:
    for change in CHANGES:
        text = render_plan(replace(EMPTY, changes=(change,)), Style(80, colour=True))
        lost = change.action is Action.DELETE or change.impact is Impact.DATA_LOSS
        assert (RED in text) == lost, change.address


def test_control_characters_stay_harmless_in_colour() -> None:
    change = replace(CHANGES[0], reason="\x1b[31mred\n")
    text = render_plan(replace(EMPTY, changes=(change,)), Style(80, colour=True))
    assert "\\x1b[31mred\\x0a" in text

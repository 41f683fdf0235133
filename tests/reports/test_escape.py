"""Text that came from elsewhere changes neither what a person sees nor what a CI log does."""

import json

import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.reports.escape import visible
from reconciler.reports.formats import find_formats
from reconciler.reports.formats.json import render as as_json
from reconciler.reports.report import Failure, Page

FAILED = "::error title=failed::"
UNSEEN = [
    *"\u00ad\u061c\u115f\u180e\u200b\u200f\u2028\u202e\u2061\u2066\u206f\u2800",
    *"\u3164\ufeff\ufff9\x7f\x9b\U000e0041",
]


@pytest.mark.parametrize("character", UNSEEN, ids=lambda character: f"{ord(character):x}")
def test_an_unseen_character_is_spelled_out_in_text_and_in_json(character: str) -> None:
    name = f"pro{character}d"
    assert visible(name).isascii()
    shown = as_json(Page(document={"name": name}))
    assert shown.isascii()
    assert json.loads(shown)["name"] == name
    for each in find_formats().values():
        assert character not in each.render(Failure(message=name))


@pytest.mark.parametrize(
    "text", ["naïve", "👩\u200d🚀", "\u0645\u06cc\u200c\u062e\u0648", "日本語", "e\u0301"]
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert text in as_json(Page(document={"name": text}))


def test_a_joiner_between_plain_letters_is_spelled_out() -> None:
    assert visible("pro\u200dd") == r"pro\u200dd"


@pytest.mark.parametrize(
    "text",
    [
        "vol_1##[set-output name=a]b",
        "vol_1 ::set-output name=a::b",
        "::error::all is well",
        "x\t::stop-commands::token",
    ],
)
def test_a_command_to_a_ci_runner_is_broken_up(text: str) -> None:
    for each in find_formats().values():
        shown = each.render(Failure(message=text))
        shown = shown.removeprefix(FAILED)  # the only command that a report gives itself
        assert "##[" not in shown
        assert "::set-output" not in shown
        assert "::error" not in shown
        assert "::stop" not in shown
    assert json.loads(as_json(Page(document={"name": text})))["name"] == text


def test_an_address_with_two_colons_is_no_command() -> None:
    assert visible("fdaa:0:1::3, ::ffff:1") == "fdaa:0:1::3, ::ffff:1"


def test_failures_are_told_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert visible(str(ReconcilerError("##[error] no"))) == r"##\x5berror] no"

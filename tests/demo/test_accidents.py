"""The ten accidents do not happen; where one would, `demo accident` says so and ends with 1."""

import html
import os
import re
from pathlib import Path

import pytest

from reconciler.demo import accidents
from reconciler.demo.accidents import ACCIDENTS, play_accidents
from tests.docs.pages import ROOT
from tests.inprocess import Command

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ACCIDENTS)
def test_the_accident_does_not_happen(name: str) -> None:
    (played,) = play_accidents([name], os.environ)
    assert not played.problem, played.output


def test_an_accident_is_shown_in_four_parts(reconcile: Command) -> None:
    shown = reconcile("demo accident manifests-gone").out
    happened, source, *typed, held = shown.splitlines()[:5]
    assert happened.startswith("manifests-gone: Crossplane on Azure, 2021")
    assert re.fullmatch(r"  https://\S+", source)
    assert [line[:4] for line in typed] == ["  $ ", "  $ "]
    assert held.startswith("  HELD: What leaves the manifests stays")


def test_an_accident_that_happens_is_told(reconcile: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody deletes the volume past us: the same as if we had done it."""
    deleted = ACCIDENTS["manifests-gone"]._replace(typed=("reconcile demo play volume-deleted",))
    monkeypatch.setitem(accidents.ACCIDENTS, "manifests-gone", deleted)
    shown = reconcile("demo accident manifests-gone", code=1).out
    assert "HAPPENED (lost: ['data'])" in shown


def test_one_that_is_made_twice_is_told(reconcile: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = ACCIDENTS["answer-lost"]._replace(typed=("reconcile demo play volume-made",))
    monkeypatch.setitem(accidents.ACCIDENTS, "answer-lost", twice)
    assert "HAPPENED (made twice: ['data'])" in reconcile("demo accident answer-lost", code=1).out


def _dense(text: str) -> str:
    """`text` without spaces: the picture has a piece for each colour."""
    return re.sub(r"\s", "", text)


def test_the_picture_in_the_readme_is_of_these_accidents() -> None:
    """`python docs/accidents.py` draws it anew, from a real run."""
    drawn = re.findall(r"<text[^>]*>(.*?)</text>", (ROOT / "docs/accidents.svg").read_text(encoding="utf-8"))
    shown = _dense(html.unescape("".join(drawn)))
    named = [name for name in ACCIDENTS if f"{name}:" in shown]
    assert len(named) == 4
    for name in named:
        told = ACCIDENTS[name]
        for text in (told.happened, told.source, *told.typed, f"HELD: {told.held}"):
            assert _dense(text) in shown, text
    assert "docs/accidents.svg" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    list(play_accidents(["manifests-gone"], os.environ))
    assert list(tmp_path.iterdir()) == []

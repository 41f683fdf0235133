"""Every code has a page, every page a code, and every page shows what the product prints."""

import re
from io import StringIO
from pathlib import Path

import pytest

from reconciler.cli.main import USAGE, run
from reconciler.core.diagnostics import Severity
from reconciler.explanations import known_codes
from tests.explain.acts import ACTS
from tests.explain.codes import find_codes
from tests.explain.pages import SITUATIONS, also_told, diagnostics_of, printed, read_page

WIDTH = 110

each_page = pytest.mark.parametrize("code", known_codes())


@pytest.mark.slow
def test_every_code_has_a_page_and_every_page_a_code() -> None:
    codes = find_codes()
    missing = {code: place for code, place in codes.items() if code not in known_codes()}
    assert missing == {}, "write reconciler/explanations/CODE.md"
    assert [code for code in known_codes() if code not in codes] == []


def test_every_situation_belongs_to_a_page() -> None:
    played = {file.stem for file in SITUATIONS.iterdir()} | ACTS.keys()
    assert played <= set(known_codes())


@each_page
def test_a_page_has_its_parts_and_no_line_that_is_too_long(code: str) -> None:
    page = read_page(code)
    assert re.fullmatch(r"(YAML|[a-z0-9])[^\n]{9,80}[^.\n]", page.title), page.title
    assert re.findall(r"^#+ .*$", page.text, re.MULTILINE) == ["## Example", "## Cure"]
    cause, rest = page.text.split("\n## Example\n")
    example, cure = rest.split("\n## Cure\n")
    assert len(cause.split()) > 10
    assert "```text\n" in example
    assert len(cure.split()) > 5
    prose = re.sub(r"^```text\n.*?^```$", "", page.text, flags=re.MULTILINE | re.DOTALL)
    assert [line for line in prose.splitlines() if len(line) > WIDTH or line != line.rstrip()] == []
    words = re.sub(r"^```.*?^```$", "", page.text, flags=re.MULTILINE | re.DOTALL)
    assert [line for line in words.splitlines() if line.count("`") % 2] == [], "a command goes on a new line"


@each_page
def test_a_page_shows_what_is_printed(code: str, tmp_path: Path) -> None:
    page = read_page(code)
    told = diagnostics_of(page, tmp_path)
    about = [item for item in told if item.code == code]
    assert printed(about, tmp_path) == page.block("text")
    others = {item.code for item in told if item.severity is not Severity.INFO}
    assert others - {code} == also_told(code)


_FILLED_IN = {"FILE": "backup", "ADDRESS": "Volume/shop/data"}  # what a person has to know


class _Terminal(StringIO):
    """A person who answers nothing."""

    def isatty(self) -> bool:
        return True


@each_page
def test_each_command_that_is_advised_is_one_that_can_be_typed(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the situation's own folder; what it needs of a platform or of another state is not there."""
    advised = {command.argv for item in diagnostics_of(read_page(code), tmp_path) for command in item.advice}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", _Terminal())
    for name in ("RECONCILE_BASE_URL", "RECONCILE_STATE", "RECONCILE_ENV", "RECONCILE_UNTRUSTED"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "backup").touch()
    capsys.readouterr()
    for argv in sorted(advised):
        ended = run([_FILLED_IN.get(word, word) for word in argv[1:]])
        assert ended != USAGE, f"{' '.join(argv)}: {capsys.readouterr().err}"

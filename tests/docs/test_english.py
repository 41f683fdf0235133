"""Words that read as translated stay out of what people read. Source: STYLE, "English"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

_AVOIDED = re.compile(
    r"\b(?:shall|whoever|by now|told of|tell no more|(?:so long a|wait so long))\b"
    r"|\b(?:all the same|for good|look whether|ha(?:ve|s) to differ|nor could|not readable here)\b"
    r"|\b(?:stood here|if you know better|no record knows|brings? it back)\b"
    r"|\b(?:hears? of|in the midst|worth while|belongs? into|came about)\b"
    r"|\bno (?:manifest|environment) can (?:have|say)\b"
    # "is no longer" and "there is no …" are English; "X is no Y" is not
    r"|(?<!there )(?<!There )\b(?:is|are) no (?!longer\b|more\b|need\b|such\b)[a-z`]+"
    r"|\bsince (?:\d+|\{[^}]*\}) s\b",
    re.IGNORECASE,
)


def breaches(root: Path) -> list[str]:
    """Each avoided word in the texts below `root`, as `file:line: words`."""
    return [
        f"{file.relative_to(root)}:{line}: {found[0]}"
        for file, line, text in _texts(root)
        for found in _AVOIDED.finditer(text)
    ]


def _texts(root: Path) -> Iterator[tuple[Path, int, str]]:
    for file in [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("reconciler/explanations/*.md")]:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            yield file, number, line
    for file in root.glob("reconciler/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (getattr(part, "value", None) for part in node.values)
                yield file, node.lineno, "".join(part if isinstance(part, str) else "{}" for part in parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield file, node.lineno, node.value


def test_texts_read_as_english() -> None:
    assert breaches(ROOT) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the machine shall run", "shall"),
        ("`x` is no name of an environment", "is no name"),
        ("locked by ann since 40 s", "since 40 s"),
        ("whoever wants it", "whoever"),
        ("it was made all the same", "all the same"),
        ("it is gone for good", "for good"),
        ("look whether it holds", "look whether"),
        ("they have to differ", "have to differ"),
        ("nor could it be written", "nor could"),
        ("its source is not readable here", "not readable here"),
        ("the value stood here", "stood here"),
        ("if you know better, pass --force", "if you know better"),
        ("a secret that no record knows", "no record knows"),
        ("`restore` brings it back", "brings it back"),
        ("no manifest can say its name", "no manifest can say"),
        ("`tell` hears of a migration", "hears of"),
        ("a password belongs into a variable", "belongs into"),
    ],
)
def test_a_planted_word_is_found(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "README.md").write_text("There is no state. It is no longer there.\n", encoding="utf-8")
    (tmp_path / "reconciler").mkdir()
    (tmp_path / "reconciler" / "a.py").write_text(f"X = {text!r}\n", encoding="utf-8")
    assert breaches(tmp_path) == [f"reconciler/a.py:1: {words}"]

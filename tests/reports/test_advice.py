"""Advice is data: a text's commands get a run's options, are quoted, and stand in JSON as words."""

import ast
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.advice import Command, RunOptions, command, pieces, spell
from reconciler.core.diagnostics import error
from reconciler.reports.report import advise
from tests.documents import diagnostic_documents

PROD = RunOptions("prod", "sqlite:of prod.db", sandbox=True)
FORGET = command("state", "forget", "Volume/shop/data[1]")
SOURCE = Path(__file__).parents[2] / "reconciler"


def test_a_command_that_names_a_state_does_not_get_another_one() -> None:
    named = command("state", "migrate", "sqlite:new.db", "--state", "URL")
    assert str(named.with_options(RunOptions(state="sqlite:new.db"))) == f"reconcile {' '.join(named.words)}"


def test_a_command_is_quoted_for_a_shell_and_not_in_its_words() -> None:
    adopt = command("resolve", "Volume/shop/data[1]", "--adopt", "vol_1$(touch pwn)")
    assert str(adopt) == "reconcile resolve 'Volume/shop/data[1]' --adopt 'vol_1$(touch pwn)'"
    assert adopt.argv[2:] == ("Volume/shop/data[1]", "--adopt", "vol_1$(touch pwn)")


@pytest.mark.parametrize(
    "word",
    [
        "vol_1$(touch pwn)",
        "vol 1",
        "a'b\"c",
        "`id`",
        "x; rm x",
        *("*", "~", "", "-x", "--force", "a\nb", "$HOME", "!!"),
    ],
)
def test_a_shell_gives_each_word_as_it_was(word: str, tmp_path: Path) -> None:
    line = str(command("state", "forget", "--unclaimed", word).with_options(RunOptions(state=word)))
    as_printed = f"printf '%s\\0' {line}"
    got = subprocess.run(["sh", "-c", as_printed], capture_output=True, check=True, cwd=tmp_path).stdout
    state = ["--state", word] if word else []
    assert got.decode().split("\0")[:-1] == ["reconcile", "state", "forget", *state, "--unclaimed", word]
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
def test_any_words_come_back_from_the_line(words: list[str]) -> None:
    assert shlex.split(str(command("resolve", *words))) == ["reconcile", "resolve", *words]


def test_options_follow_the_verb() -> None:
    assert FORGET.with_options(PROD).argv == (
        *("reconcile", "state", "forget"),
        *("--env", "prod", "--state", "sqlite:of prod.db", "--sandbox"),
        "Volume/shop/data[1]",
    )


@pytest.mark.parametrize(
    ("text", "advice", "spelled"),
    [
        ("nothing", (), "nothing"),
        (f"run `{FORGET}` first", (FORGET,), f"run `{FORGET.with_options(PROD)}` first"),
        # One command begins as another does.
        (
            f"`{command('plan')}`, then `{command('plan', '--out', 'FILE')}`",
            (command("plan"), command("plan", "--out", "FILE")),
            "`reconcile plan --env prod --state 'sqlite:of prod.db' --sandbox`, then "
            "`reconcile plan --env prod --state 'sqlite:of prod.db' --sandbox --out FILE`",
        ),
        ("`reconcile plan` of others", (FORGET,), "`reconcile plan` of others"),
    ],
)
def test_a_text_is_spelled_with_the_options_of_a_run(
    text: str, advice: tuple[Command, ...], spelled: str
) -> None:
    assert spell(text, advice, PROD) == spelled
    assert "".join(map(str, pieces(text, advice))) == text


def test_a_diagnostic_has_its_commands_as_text_and_as_words() -> None:
    problem = error("gone", "it is gone", help=f"run `{FORGET}`", notes=("see above",), advice=(FORGET,))
    (document,) = diagnostic_documents(advise([problem], RunOptions(env="prod")))
    assert document["help"] == "run `reconcile state forget --env prod 'Volume/shop/data[1]'`"
    assert document["advice"] == [
        {"argv": ["reconcile", "state", "forget", "--env", "prod", "Volume/shop/data[1]"]}
    ]
    assert json.loads(json.dumps(document)) == document


def test_no_text_advises_a_command_that_is_not_data() -> None:
    """A command that is written into a text by hand would act on another environment."""
    by_hand = re.compile(r"\breconcile (plan|apply|drift|import|show|resolve|state [a-z]|extension [a-z])")
    found = []
    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if not by_hand.search(text):
            continue
        tree = ast.parse(text)
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        found += [
            f"{file.relative_to(SOURCE)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
            and by_hand.search(node.value)
        ]
    # What is typed in a folder that is not there yet, or in a shell that a demo begins.
    elsewhere = ("kinds/machine/kind.py", "demo/", "starting/", "cli/demo.py", "cli/start.py")
    assert [place for place in found if not place.startswith(elsewhere)] == []

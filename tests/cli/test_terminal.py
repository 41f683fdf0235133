"""What a terminal gets, and what nothing else gets."""

import io
import os
import pty
import re
import shutil
import subprocess

import pytest
from rich.console import Console

from reconciler.cli.live import LiveReporter
from reconciler.core.model import Address
from reconciler.core.steps import Call, Step
from tests.cli.harness import PATIENCE_S, RECONCILE, Project, Sandbox, lines_with, secret, volume
from tests.cli.terminal import SHORT_SCREEN, TOLD_PAGER, on_a_terminal

ESCAPE = "\x1b"
END_OF_INPUT = b"\x04"
COLOUR = re.compile(r"\x1b\[[0-9;]*[1-9][0-9;]*m")
LONG_NAME = "a-rather-long-name-of-a-volume-that-nobody-would-want-to-see-cut"[:60]


def test_off_a_terminal_no_escape_code_is_printed(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app, LONG_NAME))
    ran = project.run("apply", "--auto-approve", env={"COLUMNS": "20", "TERM": "xterm-256color"})
    assert ESCAPE not in ran.out + ran.err
    assert f"Volume/{app}/{LONG_NAME}#create: done" in ran.err
    assert f"Volume/{app}/{LONG_NAME}" in ran.out
    refused = project.run("plan", "no-such-path", code=1, env={"TERM": "xterm-256color"})
    assert ESCAPE not in refused.out + refused.err


def test_an_id_that_is_the_name_is_not_repeated(project: Project, app: str) -> None:
    project.write(secret(app, "PASSWORD", "env: SHOP_PASSWORD"))
    ran = project.run("apply", "--auto-approve", env={"SHOP_PASSWORD": "canary"})
    (line,) = lines_with(ran.err, f"Secret/{app}/PASSWORD#set: done")
    assert "(PASSWORD)" not in line


def test_a_terminal_gets_live_progress_in_colour_with_whole_names(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app, LONG_NAME))
    code, shown = on_a_terminal(project, "apply", "--auto-approve")
    assert code == 0
    assert COLOUR.search(shown)
    assert f"Volume/{app}/{LONG_NAME}#create" in shown


def test_the_live_line_wraps_where_the_terminal_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = io.StringIO()
    name = f"{'orders-' * 8}end"
    step = Step(
        f"PostgresCluster/{name}#create", Address("PostgresCluster", name), Call("POST", "/v1/postgres")
    )
    reporter = LiveReporter(Console(file=terminal, force_terminal=True, soft_wrap=True, width=40))
    reporter.step_started(step)
    reporter.step_waiting(step, "creating", 12)
    reporter.step_finished(step, "done", 15, "pg_1")
    live = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\s", "", terminal.getvalue())
    assert f"{step.id}(creating,12s)" in live


def test_no_color_is_honoured_on_a_terminal(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    code, shown = on_a_terminal(project, "apply", "--auto-approve", env={"NO_COLOR": "1"})
    assert code == 0
    assert not COLOUR.search(shown)
    _, shown = on_a_terminal(project, "plan", "--sandbox", env={"NO_COLOR": "1"})
    assert "embedded sandbox at " in shown
    assert not COLOUR.search(shown)


def test_on_a_terminal_apply_asks_and_no_means_nothing_is_sent(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    code, shown = on_a_terminal(project, "apply", typed=b"n\n")
    assert code == 1
    assert "Apply this plan?" in shown
    assert "nothing was changed" in shown
    assert sandbox.mutations_of(app) == []
    code, shown = on_a_terminal(project, "apply", typed=END_OF_INPUT)
    assert code == 1
    assert "Not applied; nothing was changed." in shown
    assert sandbox.mutations_of(app) == []
    code, _ = on_a_terminal(project, "apply", typed=b"y\n")
    assert code == 0
    assert len(sandbox.volumes(app)) == 1
    code, shown = on_a_terminal(project, "state", "restore", typed=END_OF_INPUT)
    assert code == 1
    assert "nothing was changed" in shown


def test_a_signal_ends_the_question_at_once(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*RECONCILE, "apply"],
        cwd=project.root,
        env={**project.env, "TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(ours, 4096)
        process.terminate()
        try:
            assert process.wait(timeout=PATIENCE_S) == 143
        finally:
            process.kill()
    os.close(ours)
    assert sandbox.mutations_of(app) == []


def test_a_plan_on_a_terminal_is_coloured_and_wrapped_between_words(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app, LONG_NAME) + volume(app, "logs", spec="region: ams, size_gb: 10"))
    code, shown = on_a_terminal(project, "plan", "--no-pager")
    assert code == 0
    assert COLOUR.search(shown)
    plain = project.run("plan").out
    assert COLOUR.sub("", shown).replace("\x1b[0m", "").split()[-len(plain.split()) :] == plain.split()
    assert max(map(len, plain.splitlines())) > 40
    _, shown = on_a_terminal(project, "plan", "--no-pager", env={"NO_COLOR": "1"})
    assert not COLOUR.search(shown)


@pytest.fixture
def long_plan(project: Project, sandbox: Sandbox, app: str) -> str:
    """An address of a plan that is longer than the short screen."""
    project.write("".join(volume(app, f"data-{number}") for number in range(3)))
    return f"Volume/{app}/data-0"


def test_a_long_plan_goes_through_the_pager_of_the_person(project: Project, long_plan: str) -> None:
    code, shown = on_a_terminal(
        project, "plan", env={"PAGER": "false", "RECONCILE_PAGER": TOLD_PAGER, **SHORT_SCREEN}
    )
    assert (code, "paged:   + " + long_plan in shown) == (0, True)
    code, shown = on_a_terminal(project, "plan", env={"PAGER": TOLD_PAGER, **SHORT_SCREEN})
    assert (code, "paged:   + " + long_plan in shown) == (0, True)


def test_long_drift_goes_through_the_pager(applied: Project, sandbox: Sandbox, app: str) -> None:
    sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=20)
    code, shown = on_a_terminal(applied, "drift", env={"PAGER": TOLD_PAGER, **SHORT_SCREEN})
    assert (code, f"paged:   ! Volume/{app}/data" in shown) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (["plan", "--no-pager"], {"PAGER": TOLD_PAGER}),
        (["plan"], {"PAGER": TOLD_PAGER, "RECONCILE_PAGER": ""}),
        (["plan"], {"PAGER": "cat"}),
        (["plan"], {"PAGER": TOLD_PAGER, "LINES": "100"}),
        (["plan"], {"PAGER": TOLD_PAGER, "TERM": "dumb"}),
        (["plan"], {"PAGER": "no-such-pager"}),
        (["plan"], {"PAGER": "/dev/null"}),
        (["apply", "--auto-approve"], {"PAGER": TOLD_PAGER}),
    ],
    ids=["option", "empty", "cat", "short", "dumb", "missing", "no-program", "apply"],
)
def test_without_a_pager_the_plan_is_printed_once(
    project: Project, long_plan: str, arguments: list[str], env: dict[str, str]
) -> None:
    code, shown = on_a_terminal(project, *arguments, env=SHORT_SCREEN | env)
    assert code == 0
    assert "paged:" not in shown
    assert shown.count(f"  + {long_plan}: create") == 1


def test_a_pager_that_was_left_early_changes_nothing(project: Project, long_plan: str) -> None:
    code, shown = on_a_terminal(
        project, "plan", "--detailed-exitcode", env={"PAGER": "head -n 1", **SHORT_SCREEN}
    )
    assert code == 2
    assert long_plan not in shown
    assert "rror" not in shown


def test_ctrl_c_in_the_pager_ends_the_pager_alone(project: Project, long_plan: str) -> None:
    code, shown = on_a_terminal(
        project,
        "plan",
        "--detailed-exitcode",
        answers={b"Plan: ": b"\x03"},
        env={"PAGER": "cat; exec sleep 60", **SHORT_SCREEN},
    )
    assert code == 2
    assert "nterrupt" not in shown
    assert "Traceback" not in shown


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_less_is_the_pager_of_who_names_none(project: Project, long_plan: str) -> None:
    project.env.pop("PAGER", None)
    code, shown = on_a_terminal(
        project, "plan", "--detailed-exitcode", answers={b":": b"q"}, env={"COLUMNS": "80", "LINES": "5"}
    )
    assert code == 2
    assert COLOUR.search(shown)
    assert shown.count("Plan:") == 1


def test_plain_marks_stand_where_the_encoding_has_no_others(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    code, shown = on_a_terminal(project, "apply", "--auto-approve", env={"PYTHONIOENCODING": "ascii"})
    assert code == 0
    assert shown.isascii()
    assert "\\u" not in shown
    assert f"done: Volume/{app}/data#create" in shown


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_plan_is_printed_in_any_encoding(
    project: Project, sandbox: Sandbox, app: str, encoding: str
) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 10, name: 資料"))
    for paged in (["--no-pager"], []):
        code, shown = on_a_terminal(
            project,
            "plan",
            *paged,
            env={"PAGER": "cat -u", "PYTHONIOENCODING": encoding, **SHORT_SCREEN},
        )
        assert code == 0
        assert ("資料" if encoding == "utf-8" else "\\u8cc7\\u6599") in shown

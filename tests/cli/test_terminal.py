"""What a terminal gets, and what nothing else gets."""

import io
import os
import pty
import re
import subprocess

import pytest
from rich.console import Console

from reconciler.cli.progress import LiveReporter
from reconciler.core.model import Address
from reconciler.core.steps import Call, Step
from tests.cli.harness import PATIENCE_S, RECONCILE, Project, Sandbox, lines_with, secret, volume

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


def on_a_terminal(project: Project, *arguments: str, typed: bytes = b"", **env: str) -> tuple[int, str]:
    """Exit code and all that a terminal of 40 columns gets to see."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [*RECONCILE, *arguments],
            cwd=project.root,
            env={**project.env, "TERM": "xterm-256color", "COLUMNS": "40", **env},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
    finally:
        os.close(theirs)
    if typed:
        os.write(ours, typed)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(), shown.decode()


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
    code, shown = on_a_terminal(project, "apply", "--auto-approve", NO_COLOR="1")
    assert code == 0
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

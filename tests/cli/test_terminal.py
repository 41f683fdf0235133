"""What a terminal gets, and what nothing else gets."""

import os
import pty
import re
import subprocess

from tests.cli.harness import RECONCILE, Project, Sandbox, volume

ESCAPE = "\x1b"
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
    code, _ = on_a_terminal(project, "apply", typed=b"y\n")
    assert code == 0
    assert len(sandbox.volumes(app)) == 1

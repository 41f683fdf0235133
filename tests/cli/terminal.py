"""A verb on a terminal of its own, where a person reads and types."""

import fcntl
import os
import pty
import subprocess
import termios
from collections.abc import Mapping

from tests.cli.harness import RECONCILE, Project

SHORT_SCREEN = {"COLUMNS": "80", "LINES": "5", "NO_COLOR": "1"}
TOLD_PAGER = "sed 's/^/paged: /'"


def on_a_terminal(
    project: Project,
    *arguments: str,
    typed: bytes = b"",
    answers: Mapping[bytes, bytes] = {},
    env: Mapping[str, str] = {},
) -> tuple[int, str]:
    """Exit code and all that a terminal of 40 columns gets to see.

    `typed` is there from the beginning; each of `answers` is typed once its text has been seen.
    """
    unanswered = dict(answers)
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
            preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
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
        for text in [text for text in unanswered if text in shown]:
            os.write(ours, unanswered.pop(text))
    os.close(ours)
    return process.wait(), shown.decode()

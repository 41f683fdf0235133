"""Standard streams that are closed, full or read by nobody: a sentence, never a traceback."""

import os
import subprocess
from collections.abc import Sequence

import pytest

from tests.cli.harness import PATIENCE_S, RECONCILE, Project, Ran, Sandbox, volume

APPLY = ["apply", "--auto-approve"]


def redirected(project: Project, redirection: str, *arguments: str, stdout: int = subprocess.PIPE) -> Ran:
    """The verb as a shell starts it with `redirection`, such as `2>&-`."""
    finished = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *RECONCILE, *arguments],
        cwd=project.root,
        env=project.env,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ran(finished.returncode, finished.stdout or "", finished.stderr)


def read_by_nobody(project: Project, *arguments: str) -> Ran:
    """The verb with a pipe as its stdout whose reader has gone, as in `| true`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return redirected(project, "", *arguments, stdout=writing)
    finally:
        os.close(writing)


def assert_told_in_a_line(ran: Ran, why: str) -> None:
    assert (ran.code, ran.err.splitlines()[-1]) == (1, f"error: cannot write to standard output: {why}")
    assert "Traceback" not in ran.err
    assert "Exception" not in ran.err


@pytest.mark.parametrize(
    "arguments", [["schema"], ["validate"], ["plan"], ["plan", "-o", "json"], ["--help"]], ids=" ".join
)
def test_a_full_stdout_is_told_in_a_line(project: Project, app: str, arguments: Sequence[str]) -> None:
    project.write(volume(app))
    assert_told_in_a_line(redirected(project, ">/dev/full", *arguments), "No space left on device")


def test_a_plan_that_nobody_can_read_is_not_applied(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    assert_told_in_a_line(read_by_nobody(project, *APPLY), "Broken pipe")
    assert_told_in_a_line(redirected(project, ">&-", *APPLY), "Bad file descriptor")
    assert sandbox.mutations_of(app) == []


def test_a_report_that_cannot_be_written_leaves_what_was_applied_recorded(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    told = redirected(project, ">/dev/full", *APPLY, "-o", "json")
    assert_told_in_a_line(told, "No space left on device")
    assert f"Volume/{app}/data#create: done" in told.err
    project.apply()
    assert len(sandbox.volumes(app)) == 1


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_a_lost_stderr_stops_nothing(project: Project, sandbox: Sandbox, app: str, redirection: str) -> None:
    project.write(volume(app))
    planned = redirected(project, redirection, "plan")
    assert (planned.code, "1 to create" in planned.out) == (0, True)
    applied = redirected(project, redirection, "-v", *APPLY)
    assert (applied.code, "Applied: 1 done." in applied.out) == (0, True)
    refused = redirected(project, redirection, "plan", "no-such-path")
    assert (refused.code, refused.out) == (1, "")


def test_the_embedded_sandbox_starts_without_standard_streams(project: Project, app: str) -> None:
    project.write(volume(app))
    planned = redirected(project, "<&- 2>&-", "plan", "--sandbox")
    assert (planned.code, "1 to create" in planned.out) == (0, True)

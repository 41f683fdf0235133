"""Running programs as a person would, each in a process of its own, and what they cost."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RECONCILE = (sys.executable, "-m", "reconciler")


class CouldNotRun(Exception):
    """A program did not do what was to be measured."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took from start to end. `peak_mb`: its most resident memory, in 10^6 bytes."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str


def run(command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, *, expect: str = "") -> Cost:
    """Raises CouldNotRun unless it exits with 0 and `expect` stands in its stdout."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, "XDG_STATE_HOME": str(cwd / "state-home"), **(env or {})},
            stdout=stdout,
            stderr=stderr,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        stdout.seek(0)
        stderr.seek(0)
        output = stdout.read().decode()
        if process.returncode or expect not in output:
            said = (output + stderr.read().decode())[-2000:]
            raise CouldNotRun(f"{' '.join(command)} exited with {process.returncode}:\n{said}")
        return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6, output)


@contextmanager
def serving(command: Sequence[str], cwd: Path) -> Iterator[str]:
    """The URL of a server that says `listening on URL` first and runs until it is terminated."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        if not line.startswith("listening on "):
            raise CouldNotRun(f"{' '.join(command)} did not start")
        yield line.removeprefix("listening on ")
    finally:
        process.terminate()
        process.stdout.close()
        process.wait()

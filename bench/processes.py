"""Running programs as a person would, each in a process of its own, and what they cost."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol


class CouldNotRun(Exception):
    """A program did not do what was to be measured."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took from start to end. `peak_mib`: its most resident memory."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    output: str


class Process(Protocol):
    """Of `subprocess.Popen`, what is used of it here."""

    pid: int
    returncode: Any


def start(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], out: IO[bytes], err: IO[bytes]
) -> Process:
    """A process that runs `command` with these variables beside those of this process."""
    return subprocess.Popen(command, cwd=cwd, env=environment(cwd, env), stdout=out, stderr=err)


def environment(cwd: Path, env: Mapping[str, str]) -> dict[str, str]:
    """That of a user whose marks of states are in the folder `cwd`."""
    return {**os.environ, "XDG_STATE_HOME": str(cwd / "state-home"), **env}


def run(command: Sequence[str], cwd: Path, env: Mapping[str, str] = {}, *, expect: str = "") -> Cost:
    """Raises CouldNotRun unless it exits with 0 and `expect` stands in its stdout."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        started = time.perf_counter()
        process = start(command, cwd, env, stdout, stderr)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        stdout.seek(0)
        stderr.seek(0)
        output = stdout.read().decode()
        if process.returncode or expect not in output:
            said = (output + stderr.read().decode())[-2000:]
            raise CouldNotRun(
                f"{' '.join(command)} exited with {process.returncode}, expected {expect!r}:\n{said}"
            )
        return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output)


@contextmanager
def serving(command: Sequence[str], cwd: Path, env: Mapping[str, str] = {}) -> Iterator[str]:
    """The URL of a server that says `listening on URL` first and runs until it is terminated."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as said, os.fdopen(writing, "wb") as out, Path(os.devnull).open("wb") as err:
        process = start(command, cwd, env, out, err)
        out.close()
        try:
            line = said.readline().strip()
            if not line.startswith("listening on "):
                raise CouldNotRun(f"{' '.join(command)} did not start")
            yield line.removeprefix("listening on ")
        finally:
            os.kill(process.pid, signal.SIGTERM)
            _, status = os.waitpid(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)

"""One job: an apply in a folder that holds nothing but the checkout, and what happens to it."""

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from tests.cli.harness import RECONCILE, Ran, environment
from tests.reliability.runners.cable import Cable

Harm = Literal["none", "killed", "stopped", "cut off", "cut off and killed"]
HARMS: tuple[Harm, ...] = ("killed", "stopped", "cut off", "cut off and killed", "none")

PATIENCE_S = 120.0  # for a job that should end by itself
FAKETIME = Path(f"/usr/lib/{os.uname().machine}-linux-gnu/faketime/libfaketime.so.1")  # Debian's libfaketime

_CALL = re.compile(r"^\S+#\S+: [A-Z]+ /")  # the line that a step begins with


@dataclass(frozen=True, slots=True)
class Fate:
    """After the job has begun `calls` steps and `then_s` more, it is harmed; what can end does after `for_s`.

    `clock_s`: by how much the wall clock of its machine is wrong.
    """

    harm: Harm = "none"
    calls: int = 0
    then_s: float = 0.0
    for_s: float = 0.0
    clock_s: int = 0


@dataclass
class Job:
    """`harmed`: whether the harm came before the job's end."""

    process: "subprocess.Popen[str]"
    folder: Path
    cable: Cable
    fate: Fate
    harmed: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)
    _begun: threading.Condition = field(default_factory=threading.Condition)
    _calls: int = 0
    _err: list[str] = field(default_factory=list)
    _out: list[str] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def watch(self) -> None:
        for work in (self._read_err, self._read_out, self._suffer):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._threads.append(thread)

    def ended(self) -> Ran | None:
        """How it ended; None when it did not, and had to be killed."""
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None
        finally:
            self.process.wait()
            self._ended.set()
            for thread in self._threads:
                thread.join()
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()
            shutil.rmtree(self.folder, ignore_errors=True)
        return Ran(code, "".join(self._out), "".join(self._err))

    def _read_out(self) -> None:
        self._out += _lines(self.process.stdout)

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._err.append(line)
            if _CALL.match(line):
                self._count(1)
        self._count(1_000_000)

    def _count(self, calls: int) -> None:
        with self._begun:
            self._calls += calls
            self._begun.notify_all()

    def _suffer(self) -> None:
        if self.fate.harm == "none":
            return
        with self._begun:
            self._begun.wait_for(lambda: self._calls >= self.fate.calls)
        self._ended.wait(self.fate.then_s)
        if self.process.poll() is not None:
            return
        self.harmed = True
        if self.fate.harm == "killed":
            self.process.kill()
        elif self.fate.harm == "stopped":
            self.process.send_signal(signal.SIGSTOP)
            self._ended.wait(self.fate.for_s)
            self.process.send_signal(signal.SIGCONT)
        else:
            self.cable.cut()
            self._ended.wait(self.fate.for_s)
            if self.fate.harm == "cut off and killed":
                self.process.kill()
                self.process.wait()
            self.cable.mend()


def started(folder: Path, files: Mapping[str, str], env: Mapping[str, str], cable: Cable, fate: Fate) -> Job:
    """An apply of `files`, in `folder`, which must not exist."""
    for name, text in files.items():
        path = folder / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    home = folder / "home"
    home.mkdir()
    command = [*RECONCILE, "apply", "--auto-approve", "--lock-timeout", "60", "--output", "json"]
    process = subprocess.Popen(
        command,
        cwd=folder / "checkout",
        env=environment(None, HOME=str(home), XDG_STATE_HOME=str(home), **env, **_clock(fate.clock_s)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    job = Job(process, folder, cable, fate)
    job.watch()
    return job


def _clock(wrong_by_s: int) -> dict[str, str]:
    """Variables for a process whose wall clock is wrong."""
    if not wrong_by_s:
        return {}
    return {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME": f"{wrong_by_s:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _lines(stream: IO[str] | None) -> list[str]:
    assert stream is not None
    return stream.readlines()

"""Runs programs that print secret values: without a shell, in parallel, and none survives this program.

The stderr of a program may hold secrets, so it is discarded. Its process group is killed after its time, at
the limit of its output, and on a signal that ends this program. The end of this file is about `sops`.
"""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from reconciler.core.errors import SecretUnavailable
from reconciler.core.tracing import handed_on
from reconciler.secrets.sensitive import MAX_BYTES

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 30
MOST_AT_A_TIME = 8

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CHUNK_BYTES = 65536


class ProgramFailed(Exception):
    """The program ended with `code`, which is the number of a signal when negative."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Programs:
    """The programs that run now for one call of `side_by_side`."""

    def __init__(self) -> None:
        # A signal handler may come between any two steps of the thread that it interrupts.
        self._lock = threading.RLock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        self._trace = handed_on()

    def run(
        self, argv: Sequence[str], *, what: str, cwd: Path, env: Mapping[str, str], timeout_s: float
    ) -> bytes:
        """Return all of the program's stdout. Its stdin is empty, and it has no terminal to ask on.

        Raises ProgramFailed for another exit code than 0, and SecretUnavailable for all other failures.
        """
        with self._lock:
            if self._stopped:
                raise SecretUnavailable(f"{what} was not started: this program is ending")
            process = _start(argv, what, cwd, {**env, **self._trace})
            self._running.add(process)
        try:
            output = _read(process, what, time.monotonic() + timeout_s, timeout_s)
        finally:
            self._end(process)
        if self._stopped:
            raise SecretUnavailable(f"{what} was stopped: this program is ending")
        if process.returncode:
            raise ProgramFailed(process.returncode)
        return output

    def stop(self) -> None:
        """End all programs that run, and start no more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        with self._lock:
            self._running.discard(process)
            _kill(process)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def side_by_side(jobs: Sequence[Callable[[Programs], T]], *, take_signals: bool = True) -> list[T]:
    """Run `jobs` in parallel and return their results, in order.

    `take_signals`: a signal meanwhile ends their programs before its own handler runs.
    """
    programs = Programs()
    with (
        _stopping_at_signals(programs) if take_signals else nullcontext(),
        ThreadPoolExecutor(min(len(jobs), MOST_AT_A_TIME) or 1) as pool,
    ):
        try:
            return list(pool.map(lambda job: job(programs), jobs))
        finally:
            programs.stop()


def _start(argv: Sequence[str], what: str, cwd: Path, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(  # noqa: S603 - what the settings allow, and no shell
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as failure:  # ValueError: what no system call takes
        reason = failure.strerror if isinstance(failure, OSError) else "its arguments are not valid"
    raise SecretUnavailable(f"{what} cannot be started: {reason}")


def _read(process: "subprocess.Popen[bytes]", what: str, deadline: float, timeout_s: float) -> bytes:
    """Return stdout after the process has ended. Raises SecretUnavailable for too much output or time."""
    assert process.stdout is not None
    output = bytearray()
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while waiting.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(process.stdout.fileno(), _CHUNK_BYTES)
            output += chunk
            if len(output) > MAX_BYTES:
                raise SecretUnavailable(f"the output of {what} is larger than {MAX_BYTES} bytes")
            if not chunk:
                try:
                    process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    break
                return bytes(output)
    raise SecretUnavailable(
        f"{what} did not end within {timeout_s:g} s", help="set a longer `timeout_s` beside it"
    )


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the whole group, unless its leader has been reaped: then the number may be another group's."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


@contextmanager
def _stopping_at_signals(programs: Programs) -> Iterator[None]:
    """Stop programs at signals. In other threads than the main one, which gets signals, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous: dict[int, Any] = {}

    def stop(number: int, frame: Any) -> None:
        programs.stop()
        before = previous[number]
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, before)
            os.kill(os.getpid(), number)

    for ending in _ENDING:
        before = signal.getsignal(ending)
        if before not in (None, signal.SIG_IGN):  # None: not Python's to handle
            previous[ending] = before
            signal.signal(ending, stop)
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


# --- sops ---
# Values in files that sops has encrypted, by the user's own program. Its messages are never shown: one about
# a line that it cannot read repeats the line. Source: sops 3, `--help` and its exit codes.

SOPS = "sops"
SOPS_MISSING_HELP = "install sops 3 (getsops.io), and have it on PATH where plan and apply run"

_SOPS_REASONS = {
    1: "it has no such key, or it is not encrypted with sops",
    2: "it cannot be read",
    24: "it is damaged",
    25: "a value in it is damaged, or was changed without sops",
    51: "it was changed without sops",
    52: "it was changed without sops",
    91: "the key is not valid",
    100: "there is no such file",
    128: "no key that can decrypt it is available",
}


def sops_argv(program: str, file: str, components: Sequence[str]) -> list[str]:
    """Return the command that prints the value at `components` of `file`; without any, the whole file.

    It uses `--decrypt`, not the subcommand that came with 3.9: every sops 3 knows it.
    """
    extract = ["--extract", "".join(f"[{part}]" for part in components)] if components else []
    return [program, "--decrypt", *extract, file]


def explain_sops(code: int, file: str) -> str:
    """Return why sops gave no value of `file`, from its exit code (negative: the number of a signal)."""
    reason = _SOPS_REASONS.get(code)
    ended = f"sops ended with exit code {code}" if code >= 0 else f"sops was ended by signal {-code}"
    return f"`{file}` cannot be decrypted: {f'{reason} ({ended})' if reason else ended}"

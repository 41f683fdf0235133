"""The boundaries of an apply: where a process may be struck between two things that others can see.

They are found by wrapping the seams of the product at run time, in one process only, so that the list
follows the product: every commit by its events and steps, every lease, every request by what its
connection sends and takes in, every pause, every lock.
"""

import asyncio
import contextvars
import functools
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.cli.harness import MUTATIONS

# Begin lines of the trace that name no boundary.
LATE = "started after the signal:"  # which no step should be
STRUCK = "struck at"  # and the moment, by the clock that all processes share

_IDS = re.compile(r"vol_[a-z0-9]+|vs_[a-z0-9]+|(?<=/v1/postgres/)[a-z0-9]{16}|(?<=/machines/)[a-z0-9]+")

_SCRATCH = re.compile(r"(?<=/)(drill-[\w.-]+-)[0-9a-f]{8}")  # of a drill, which has a new name each time

_STORE = ("lease", "check", "commit", "spool", "release")

_step: contextvars.ContextVar[str] = contextvars.ContextVar("step", default="")


@dataclass
class Boundaries:
    """Writes the name of each boundary that is reached to `trace`, and sends `signal` to itself at `strike`.

    A name ends in `@n`: the n-th time that this boundary is reached.
    """

    trace: Path
    strike: str = ""
    signal: int = 0
    _seen: Counter[str] = field(default_factory=Counter)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _trace: int = -1

    def reach(self, name: str) -> None:
        name = _SCRATCH.sub(r"\1*", name)
        with self._guard:
            self._seen[name] += 1
            numbered = f"{name}@{self._seen[name]}"
            self.write(numbered)
        if numbered == self.strike:
            self.write(f"{STRUCK} {time.monotonic()}")
            os.kill(os.getpid(), self.signal)

    def write(self, line: str) -> None:
        if self._trace < 0:
            self._trace = os.open(self.trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(self._trace, f"{line}\n".encode())


def trace_of(file: Path) -> list[str]:
    """The lines that a process left; none when it reached nothing."""
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def struck_at(trace: Sequence[str]) -> float:
    """The moment by `time.monotonic`. Only for a trace whose process was struck."""
    (line,) = [line for line in trace if line.startswith(STRUCK)]
    return float(line.removeprefix(STRUCK))


def wrap_everything(boundaries: Boundaries, sandbox_url: str) -> None:
    """Instrument this process, which then runs the product as it is. There is no way back."""
    _wrap_store(boundaries)
    wrap_bucket(boundaries)
    _wrap_locks(boundaries)
    _wrap_transport(boundaries, Effects(sandbox_url))
    _wrap_clock(boundaries)
    _wrap_steps(boundaries)


# --- state ---


def _wrap_store(boundaries: Boundaries) -> None:
    from reconciler.state.log.store import LogStore
    from reconciler.state.spooling import Spooling

    for name in _STORE:
        for owner in (Spooling,) if name == "spool" else (LogStore,):
            setattr(owner, name, _around(boundaries, getattr(owner, name), name))


def wrap_bucket(boundaries: Boundaries) -> None:
    """Each request to an object store or a table, by what it asks for and the kind of object."""
    from reconciler.state.places.objects.bucket import ObstoreBucket
    from reconciler.state.places.postgres.bucket import TableBucket

    def around(bucket: type[ObstoreBucket] | type[TableBucket], name: str) -> None:
        method = getattr(bucket, name)

        @functools.wraps(method)
        def request(self: Any, key: str | Sequence[str], *rest: Any) -> Any:
            # Of no step: one write carries what several steps commit at that moment.
            label = f"{name}:{_kind_of(key)}"
            boundaries.reach(f"{label}:before")
            answer = method(self, key, *rest)
            boundaries.reach(f"{label}:after")
            return answer

        setattr(bucket, name, request)

    for name in ("get", "create", "replace", "delete", "list"):
        around(ObstoreBucket, name)
    for name in ("get_all", "create", "replace", "delete", "list"):
        around(TableBucket, name)


def _kind_of(key: str | Sequence[str]) -> str:
    """`state.json`, `heads`, `leases`, `journal`, `base`: the key without environment and generation."""
    parts = (key if isinstance(key, str) else "".join(key[:1])).split("/")
    return parts[2] if len(parts) > 2 else parts[-1]


def _around(
    boundaries: Boundaries, method: Callable[..., Awaitable[Any]], name: str
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    async def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        label = _labelled(name, arguments)
        boundaries.reach(f"{label}:before")
        result = await method(self, *arguments, **named)
        boundaries.reach(f"{label}:after")
        return result

    return wrapped


def _labelled(name: str, arguments: tuple[Any, ...]) -> str:
    """`commit:step.done Volume/shop/data#create`, `check Volume/shop/data#create`, `lease`."""
    if name in ("commit", "spool"):
        said = [f"{entry.event} {entry.step}".rstrip() for entry in arguments[1]]
        return f"{name}:{' + '.join(said)}"
    return f"{name} {_step.get()}".rstrip()


def _wrap_locks(boundaries: Boundaries) -> None:
    from reconciler.state.places.sqlite import locks

    taking, giving = locks.try_lock, locks.unlock

    def try_lock(path: Path, number: int) -> bool:
        taken = taking(path, number)
        if taken:
            boundaries.reach("lock:taken")
        return taken

    def unlock(path: Path, number: int) -> None:
        giving(path, number)
        boundaries.reach("lock:freed")

    locks.try_lock, locks.unlock = try_lock, unlock


# --- requests ---


class Effects:
    """What the sandbox has carried out, asked beside the product's own connections."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        self._sent: Counter[tuple[str, str]] = Counter()
        self._before = self._carried_out()

    def await_one_more(self, method: str, path: str) -> None:
        """Block, and the whole process with it, until every `method path` that was sent is carried out.

        Requests of one path may overtake each other, so this one's effect is sure only with all of theirs.
        """
        self._sent[method, path] += 1
        due = self._before[method, path] + self._sent[method, path]
        while self._carried_out()[method, path] < due:
            continue

    def _carried_out(self) -> Counter[tuple[str, str]]:
        self._connection.request("GET", "/_sandbox/log")
        entries = json.loads(self._connection.getresponse().read())
        return Counter((entry["method"], entry["path"]) for entry in entries)


def _wrap_transport(boundaries: Boundaries, effects: Effects) -> None:
    from reconciler.services.transport import HttpTransport

    requesting = HttpTransport.request

    async def request(self: HttpTransport, method: str, url: str, **rest: Any) -> Any:
        label = _call(method, urlsplit(url).path)
        boundaries.reach(f"{label}:before")
        answer = await requesting(self, method, url, **rest)
        boundaries.reach(f"{label}:after")
        return answer

    HttpTransport.request = request  # type: ignore[method-assign]
    _wrap_connections(boundaries, effects)


def _wrap_connections(boundaries: Boundaries, effects: Effects) -> None:
    from httpx import Response

    from reconciler.core.errors import TransportError
    from reconciler.services.http1 import Http1Connection

    connecting, connected = asyncio.BaseEventLoop.create_connection, Http1Connection.connection_made
    asking, heading, completing = (
        Http1Connection.ask,
        Http1Connection.on_headers_complete,
        Http1Connection.on_message_complete,
    )
    labels: dict[int, str] = {}  # of the newest request, by connection: its answer comes outside of the step

    async def create_connection(self: asyncio.BaseEventLoop, *arguments: Any, **options: Any) -> Any:
        boundaries.reach("connect:before")
        return await connecting(self, *arguments, **options)

    def connection_made(self: Http1Connection, transport: asyncio.BaseTransport) -> None:
        connected(self, transport)
        boundaries.reach("connect:after")

    def ask(self: Http1Connection, request: bytes) -> "asyncio.Future[Response | TransportError]":
        answer = asking(self, request)
        method, target, _ = request.decode("latin-1").split(" ", 2)
        path = target.partition("?")[0]
        label = labels[id(self)] = _call(method, path)
        boundaries.reach(f"{label}:sent")
        if method in MUTATIONS:
            effects.await_one_more(method, path)
            boundaries.reach(f"{label}:effect")
        return answer

    def on_headers_complete(self: Http1Connection) -> None:
        heading(self)
        boundaries.reach(f"{labels[id(self)]}:headers")

    def on_message_complete(self: Http1Connection) -> None:
        completing(self)
        boundaries.reach(f"{labels[id(self)]}:body")

    asyncio.BaseEventLoop.create_connection = create_connection  # type: ignore[method-assign]
    Http1Connection.connection_made = connection_made  # type: ignore[method-assign]
    Http1Connection.ask = ask  # type: ignore[method-assign]
    Http1Connection.on_headers_complete = on_headers_complete  # type: ignore[method-assign]
    Http1Connection.on_message_complete = on_message_complete  # type: ignore[method-assign]


def _call(method: str, path: str) -> str:
    """Which request it is, without ids, which differ from run to run."""
    return f"{method} {_step.get() or _IDS.sub('*', path)}"


# --- time and steps ---


def _wrap_clock(boundaries: Boundaries) -> None:
    from reconciler.core.clock import SystemClock

    sleeping = SystemClock.sleep

    async def sleep(self: SystemClock, seconds: float) -> None:
        label = f"sleep {_step.get()}".rstrip()
        boundaries.reach(f"{label}:before")
        await sleeping(self, seconds)
        boundaries.reach(f"{label}:after")

    SystemClock.sleep = sleep  # type: ignore[method-assign]


def _wrap_steps(boundaries: Boundaries) -> None:
    """Each step has a task of its own, whose boundaries bear its name from here on."""
    from reconciler.cli.progress import PlainReporter
    from reconciler.core.steps import Step
    from reconciler.execution.executor import Executor

    starting, stopping = PlainReporter.step_started, Executor.stop
    stopped = threading.Event()

    def step_started(self: PlainReporter, step: Step) -> None:
        if stopped.is_set() and step.mutates:
            boundaries.write(f"{LATE} {step.id}")
        _step.set(step.id)
        starting(self, step)

    def stop(self: Executor) -> None:
        stopped.set()
        stopping(self)

    PlainReporter.step_started = step_started  # type: ignore[method-assign]
    Executor.stop = stop  # type: ignore[method-assign]

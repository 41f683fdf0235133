"""The pytest fixtures `reconcile_sandbox` and `reconcile_replay`.

The first is an emulated platform over real HTTP, fresh for a test; its mark says how it is started. The
second plays a run again that `reconcile history export` wrote. Registered as a plugin by this package; the
sandbox is imported only when a test asks for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from msgspec import Struct

MARK = "reconcile_sandbox"
_PATIENCE_S = 60
_KNOWN = ("clock", "profile", "strict", "seed", "switch", "script", "apps", "machines", "postgres", "token")
_DEFAULTS = {"clock": "manual", "profile": "extended", "token": "sandbox"}


class SandboxRefused(AssertionError):
    """The sandbox answered a control verb, or a request that was to succeed, with an error."""


class RunningSandbox(Struct, frozen=True):
    """`url` is the platform's base URL, `token` its bearer token. The control verbs are methods."""

    url: str
    token: str

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and decoded body (None for an empty one) of one request, with the token."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=_PATIENCE_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        finally:
            connection.close()

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        """The decoded body of an answer that must be a success. Raises SandboxRefused."""
        status, content = self.request(method, path, body)
        if not 200 <= status < 300:
            raise SandboxRefused(f"{method} {path} was answered with {status}: {content}")
        return content

    def app(self, name: str, **details: Any) -> dict[str, Any]:
        """Register an app (`org_slug`, `primary_region`); without one, volumes and secrets have no home."""
        return cast("dict[str, Any]", self.ok("POST", "/_sandbox/apps", {"name": name, **details}))

    def machine(self, app: str, **details: Any) -> dict[str, Any]:
        """Register a machine of the app (`id`, `state`, `volumes`, `memory_mb`, …)."""
        return cast("dict[str, Any]", self.ok("POST", "/_sandbox/machines", {"app": app, **details}))

    def provider(self, name: str, **details: Any) -> dict[str, Any]:
        """Register an extension provider, or change what is given of one: see the manual for the details."""
        return cast("dict[str, Any]", self.ok("POST", "/_sandbox/providers", {"name": name, **details}))

    def user(self, id: str, **details: Any) -> dict[str, Any]:
        """Register a user (`name`, `email`, `organizations`) who can sign in."""
        return cast("dict[str, Any]", self.ok("POST", "/_sandbox/users", {"id": id, **details}))

    def deliveries(self) -> list[dict[str, Any]]:
        """Events and questions after costs, sent to providers or to be sent."""
        return cast("list[dict[str, Any]]", self.ok("GET", "/_sandbox/deliveries"))

    def machine_verb(self, id: str, verb: str) -> dict[str, Any]:
        """What the platform does to a machine: deploy, migrate, lose_snapshot, stop, restart, destroy."""
        return cast("dict[str, Any]", self.ok("POST", f"/_sandbox/machines/{id}/{verb}"))

    def advance(self, seconds: float) -> None:
        """Move the clock on; all that falls due happens at once."""
        self.ok("POST", "/_sandbox/clock", {"advance_s": seconds})

    def fault(self, action: str, **details: Any) -> None:
        """Order one fault for the next matching request."""
        self.ok("POST", "/_sandbox/faults", {"action": action, **details})

    def faults(self, script: Any) -> None:
        """A whole script: an array of faults, or `{"seed": N, "faults": […]}`."""
        self.ok("POST", "/_sandbox/faults", script)

    def clear_faults(self) -> None:
        """Drop all faults that are not used up yet."""
        self.ok("DELETE", "/_sandbox/faults")

    def switch(self, **settings: Any) -> None:
        """Set switches of the platform by name."""
        self.ok("POST", "/_sandbox/switches", settings)

    def edit_volume(self, id: str, **fields: Any) -> dict[str, Any]:
        """A person's edit, past every rule of the API."""
        return cast("dict[str, Any]", self.ok("PATCH", f"/_sandbox/world/volumes/{id}", fields))

    def edit_cluster(self, id: str, **fields: Any) -> dict[str, Any]:
        """A person's edit, past every rule of the API."""
        return cast("dict[str, Any]", self.ok("PATCH", f"/_sandbox/world/clusters/{id}", fields))

    def back_up_cluster(self, id: str) -> dict[str, Any]:
        """The backup of a cluster that the platform makes now."""
        return cast("dict[str, Any]", self.ok("POST", f"/_sandbox/world/clusters/{id}/backups"))

    def world(self) -> dict[str, list[dict[str, Any]]]:
        """All that exists: apps, clusters, volumes, snapshots, secrets, machines, providers and theirs."""
        return cast("dict[str, list[dict[str, Any]]]", self.ok("GET", "/_sandbox/world"))

    def log(self) -> list[dict[str, Any]]:
        """Every request to the platform: seq, at, method, path, status and whether it changed the world."""
        return cast("list[dict[str, Any]]", self.ok("GET", "/_sandbox/log"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}({', '.join(_KNOWN)}): options of the sandbox")


@pytest.fixture
def reconcile_sandbox(request: pytest.FixtureRequest) -> Iterator[RunningSandbox]:
    """A platform of this test's own. The mark of the same name says how it is started, the nearest first."""
    from reconciler.core.errors import ReconcilerError
    from reconciler.core.extras import require_extra

    try:
        require_extra("sandbox", f"the fixture {MARK}")
    except ReconcilerError as missing:
        pytest.fail(f"{missing}\n{missing.help}", pytrace=False)
    from reconciler.sandbox import serving

    options: dict[str, Any] = dict(_DEFAULTS)
    for mark in reversed(list(request.node.iter_markers(MARK))):
        unknown = [*(repr(argument) for argument in mark.args), *(set(mark.kwargs) - set(_KNOWN))]
        if unknown:
            raise pytest.UsageError(
                f"the mark {MARK} takes no {unknown[0]}: it takes {', '.join(_KNOWN)}, by name"
            )
        options |= mark.kwargs
    with serving(**options) as url:
        yield RunningSandbox(url, options["token"])


@pytest.fixture
def reconcile_replay() -> Callable[[str | Path], None]:
    """Plays a run again from the folder of `reconcile history export`; the test fails if it goes otherwise.

    In a process of its own, in simulated time.
    """

    def play(folder: str | Path) -> None:
        command = [sys.executable, "-m", "reconciler", "history", "replay", str(folder)]
        played = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        if played.returncode:
            pytest.fail(f"{played.stdout}{played.stderr}".strip(), pytrace=False)

    return play

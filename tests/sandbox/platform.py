"""A sandbox in process, as the tests talk to it: at noon of 1 March 2026, on a clock that only they move."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.exchange import Request, Response

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
BEARER = {"authorization": "Bearer sandbox"}


class Platform:
    """`call` sends one request; `ok` also checks that it succeeded and gives the decoded body.

    As a context it closes the sandbox at its end.
    """

    def __init__(
        self, db: Path | None = None, *, profile: str = "extended", wall: float = NOON, **options: Any
    ) -> None:
        self.sandbox = Sandbox(
            db=db,
            profile=profile,
            wall=lambda: wall,
            **{"rng": random.Random(7), "apps": [{"name": "shop"}], "monotonic": lambda: 0.0, **options},
        )

    def call(
        self, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Response:
        path, _, query = target.partition("?")
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.sandbox.handle(Request(method, path, query, BEARER if headers is None else headers, raw))

    def ok(self, method: str, target: str, body: Any = None) -> Any:
        response = self.call(method, target, body)
        assert 200 <= response.status < 300, (response.status, response.body)
        return response.json() if response.body else None

    def switch(self, **settings: Any) -> None:
        self.ok("POST", "/_sandbox/switches", settings)

    def fault(self, **fault: Any) -> None:
        self.ok("POST", "/_sandbox/faults", [fault])

    def advance(self, seconds: float) -> None:
        self.ok("POST", "/_sandbox/clock", {"advance_s": seconds})

    def log(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.ok("GET", "/_sandbox/log")
        return entries

    def world(self) -> dict[str, list[dict[str, Any]]]:
        world: dict[str, list[dict[str, Any]]] = self.ok("GET", "/_sandbox/world")
        return world

    def volume(self, **body: Any) -> dict[str, Any]:
        created: dict[str, Any] = self.ok("POST", "/v1/apps/shop/volumes", {"name": "data", **body})
        return created

    def app(self, name: str, **body: Any) -> dict[str, Any]:
        app: dict[str, Any] = self.ok("POST", "/_sandbox/apps", {"name": name, **body})
        return app

    def machine(self, **body: Any) -> dict[str, Any]:
        """Register machine m1 of the app, or what changes of it."""
        machine: dict[str, Any] = self.ok("POST", "/_sandbox/machines", {"app": "shop", "id": "m1", **body})
        return machine

    def by_hand(self, verb: str) -> dict[str, Any]:
        """What the platform or a person does to machine m1."""
        machine: dict[str, Any] = self.ok("POST", f"/_sandbox/machines/m1/{verb}")
        return machine

    def only(self, part: str) -> dict[str, Any]:
        """The one thing of a part of the world."""
        (thing,) = self.world()[part]
        return thing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sandbox.close()

    def cluster(self, **body: Any) -> dict[str, Any]:
        wanted = {"org_slug": "personal", "plan": "basic", "region": "ams", **body}
        created: dict[str, Any] = self.ok("POST", "/v1/postgres", wanted)["data"]
        return created

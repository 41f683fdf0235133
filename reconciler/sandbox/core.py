"""From a request and the world to an answer: the one core that both fronts call."""

import hmac
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reconciler.sandbox import catalog, control, faults
from reconciler.sandbox.clock import WorldClock, http_date, rfc3339
from reconciler.sandbox.database import Database, LogEntry
from reconciler.sandbox.exchange import Refusal, Request, Response, reply
from reconciler.sandbox.routing import Router
from reconciler.sandbox.seed import plant
from reconciler.sandbox.world import World

PROFILES = ("documented", "extended")
DEFAULT_TOKEN = "sandbox"  # noqa: S105 - the documented default, loopback only


class Sandbox:
    """The emulated platform. `handle` is the in-process front; every answer it gave is stored before.

    Without `db` it lives in memory. `apps` and `machines` are bodies of the control verbs of these
    names; `seed` is a document like the answer to `GET /_sandbox/world`, planted into an empty world only.
    Raises ValueError for an unknown clock or profile, StoreError for an unusable `db` or `seed`.
    """

    def __init__(
        self,
        *,
        db: Path | None = None,
        clock: str = "manual",
        profile: str = "documented",
        token: str = DEFAULT_TOKEN,
        apps: Sequence[Mapping[str, Any]] = (),
        machines: Sequence[Mapping[str, Any]] = (),
        seed: Path | None = None,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        if profile not in PROFILES:
            raise ValueError(f"`{profile}` is not a profile: use {' or '.join(PROFILES)}")
        self._rng = rng or random.Random()  # noqa: S311 - ids, not secrets
        self.world = World(self._rng, catalog.TRANSITIONS)
        self.database = Database(db)
        saved = self.database.load(self.world)
        self.world.switches.update(saved.get("switches", {}))
        self.faults = faults.Faults(faults.stored(saved.get("faults", [])))
        self.clock = WorldClock(clock, saved.get("clock", 0.0), wall=wall, monotonic=monotonic)
        self.extended = profile == "extended"
        self._bearer = f"Bearer {token}".encode()
        self._platform = Router(catalog.ROUTES, extended=self.extended)
        self._control = Router(control.ROUTES)
        self.settle()
        plant(self.world, seed, apps, machines)
        self._commit(self._settings())

    def handle(self, request: Request) -> Response:
        """Answer at once; what a front has to wait for is in the answer's `delay_s`.

        A wait for a state that is not reached gets the 408 that ends it, though its time has not passed.
        """
        return self.answer(request, self.fault_for(request))

    def fault_for(self, request: Request) -> faults.Fault | None:
        """Take the fault that hits this request; the front waits for its `hold_s` before `answer`."""
        return None if request.path.startswith(control.PREFIX) else self.faults.take(request)

    def answer(
        self, request: Request, fault: faults.Fault | None = None, since: float | None = None
    ) -> Response:
        """The answer as of now. A front that can wait says `since` when, by the world's clock, it was asked.

        It gets an answer whose `again_s` is not 0 while a better one may come: not logged, not to be
        sent, but to be asked for again when the clock has moved or another request was answered.
        """
        self.settle()
        if request.path.startswith(control.PREFIX):
            response = self._control_answer(request)
            self._commit(self._settings())
        else:
            before = self.world.revision
            response = Response() if fault and not fault.carries_out else self._platform_answer(request)
            if since is not None and self.world.now < since + response.again_s:
                return response
            response.again_s = 0.0
            if fault:
                response = fault.spoil(request, response)
            effect = self.world.revision != before
            at = rfc3339(self.world.now, 3)
            entry = LogEntry(at, request.method, request.path, response.status, effect)
            self._commit(self._settings() if fault else {"clock": self.world.now}, entry)
        response.headers.setdefault("date", http_date(int(self.world.now)))
        response.headers.setdefault("x-request-id", f"{self._rng.getrandbits(64):016x}")
        return response

    def settle(self) -> None:
        """Let everything happen that is due by now."""
        self.world.settle_until(self.clock.now())

    def tick(self) -> None:
        """Settle and store, without a request."""
        self.settle()
        if self.world.changed:
            self._commit({"clock": self.world.now})

    def advance(self, seconds: float) -> None:
        """Move the clock on, as `POST /_sandbox/clock` does."""
        self.clock.advance(seconds)
        self.tick()

    def close(self) -> None:
        self.database.close()

    def _platform_answer(self, request: Request) -> Response:
        try:
            self._authorize(request)
            handler, parameters = self._platform.find(request.method, request.path)
            return handler(self.world, request, **parameters)
        except Refusal as refusal:
            return refused(request.path, refusal)

    def _control_answer(self, request: Request) -> Response:
        try:
            handler, parameters = self._control.find(request.method, request.path)
            return handler(self, request, **parameters)
        except Refusal as refusal:
            return refused(request.path, refusal)

    def _authorize(self, request: Request) -> None:
        sent = request.headers.get("authorization", "")
        scheme, _, credential = sent.partition(" ")
        presented = f"{scheme.capitalize()} {credential.strip()}".encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(presented, self._bearer):
            raise Refusal(401, "unauthorized", "unauthorized", headers={"www-authenticate": "Bearer"})

    def _settings(self) -> dict[str, Any]:
        return {"clock": self.world.now, "switches": self.world.switches, "faults": self.faults.dump()}

    def _commit(self, settings: Mapping[str, Any], entry: LogEntry | None = None) -> None:
        self.database.commit(self.world.changed, settings, entry)
        self.world.changed.clear()


def refused(path: str, refusal: Refusal) -> Response:
    """The error body that the endpoints around `path` are documented or known to send.

    Source: platform API, 7.1 and 7.2; platform notes, "Errors, limits, headers".
    """
    body: dict[str, Any] = {"error": refusal.message}
    if path.split("/")[4:5] == ["secrets"]:
        body = {"details": refusal.details, "error": refusal.message, "status": refusal.code or "not_found"}
    elif refusal.code and path.startswith("/v1/apps/"):
        body["status"] = refusal.code
    response = reply(body, refusal.status)
    response.headers.update(refusal.headers)
    return response

"""From a request and the world to an answer: the one core that both fronts call.

In this order: states that are due end, a fault may take the request, the token and the organization are
checked, then the rate limit, and the handler answers. Changes and the log are stored before the answer is
given. Control verbs skip faults, token, rate limit and log.
"""

import json
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from reconciler.sandbox import access, catalog, control, faults, switches
from reconciler.sandbox.access import READ_MACHINE, USUAL, WEBHOOKS, Buckets, Limit, check_body
from reconciler.sandbox.clock import LATEST_S, WorldClock, http_date, rfc3339
from reconciler.sandbox.database import Database, LogEntry
from reconciler.sandbox.exchange import Refusal, Request, Response, reply, without_nulls
from reconciler.sandbox.part import Route
from reconciler.sandbox.parts import cluster, delivery, machine, provider, secret
from reconciler.sandbox.parts.machine_power import suspend
from reconciler.sandbox.world import World

PROFILES = ("documented", "extended")
POSTGRES = ("none", "real")
SOCKET_HOST = "flaps"
DEFAULT_TOKEN = "sandbox"  # noqa: S105 - the documented default, loopback only


Match = tuple[Route, Mapping[str, str]]  # and the decoded values of the parameters in its path


class Router:
    """The routes by their paths."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_depth: dict[int, list[tuple[re.Pattern[str], Route]]] = {}
        for route in routes:
            path = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path))
            self._by_depth.setdefault(route.path.count("/"), []).append((path, route))

    def find(self, method: str, path: str) -> Match:
        """The handler for a request; HEAD is answered as GET. Raises Refusal 404 or 405."""
        wanted = "GET" if method == "HEAD" else method
        allowed: set[str] = set()
        for pattern, route in self._by_depth.get(path.count("/"), ()):
            if found := pattern.fullmatch(path):
                if route.method == wanted:
                    return route, {name: unquote(value) for name, value in found.groupdict().items()}
                allowed.add(route.method)
        if not allowed:
            raise Refusal(404, "this path does not exist", "not_found")
        if "GET" in allowed:
            allowed.add("HEAD")
        raise Refusal(
            405, "method not allowed", "method_not_allowed", headers={"allow": ", ".join(sorted(allowed))}
        )


class Sandbox:
    """The emulated platform. `handle` is the in-process front; every answer it gave is stored before.

    Without `db` it lives in memory; not `stored`, it keeps no log either. `apps` and `machines` are bodies
    of the control verbs of these names; `seed` is a document like the answer to `GET /_sandbox/world`,
    planted into an empty world only; `seed_name` is what errors call it.
    `token` may touch every organization, those in `organization_tokens` the organizations with these slugs.
    `switch` are settings of switches, `script` the body of a `POST /_sandbox/faults`; `strict`
    refuses what neither the document nor the notes describe. `postgres` `real`: clusters are PostgreSQL
    servers; then it must be closed.
    Raises ValueError for an unknown clock, profile, switch or fault, or an unusable token, StoreError
    for an unusable `db` or `seed`, ReconcilerError where PostgreSQL is not installed.
    """

    def __init__(
        self,
        *,
        db: Path | None = None,
        clock: str = "manual",
        profile: str = "documented",
        token: str = DEFAULT_TOKEN,
        organization_tokens: Mapping[str, Sequence[str]] | None = None,
        apps: Sequence[Mapping[str, Any]] = (),
        machines: Sequence[Mapping[str, Any]] = (),
        seed: Path | Mapping[str, Any] | None = None,
        seed_name: str = "",
        switch: Mapping[str, Any] | None = None,
        script: Any = None,
        strict: bool = False,
        postgres: str = "none",
        stored: bool = True,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        if profile not in PROFILES:
            raise ValueError(f"`{profile}` is not a profile: use {' or '.join(PROFILES)}")
        if postgres not in POSTGRES:
            raise ValueError(f"`{postgres}` is not a kind of postgres: use {' or '.join(POSTGRES)}")
        self._rng = rng or random.Random()  # noqa: S311 - ids, not secrets
        self.extended = profile == "extended"
        self.world = World(self._rng, catalog.TRANSITIONS, extended=self.extended)
        self.database = Database(db) if stored else None
        saved = self.database.load(self.world) if self.database else {}
        self.world.switches.update(saved.get("switches", {}))
        self.faults = faults.stored(saved.get("faults", {}))
        self.clock = WorldClock(clock, saved.get("clock", 0.0), wall=wall, monotonic=monotonic)
        self.world.wall, self.world.hurried = wall, self.clock.rate > 1
        self.world.watcher = delivery.note
        self._tokens = access.Tokens(token, organization_tokens or {})
        self.strict = strict
        self._buckets = Buckets()
        self._platform = Router(catalog.routes(extended=self.extended))
        self._control = Router(control.route.found)
        if postgres == "real":
            from reconciler.sandbox.postgres import Servers  # late: few need it

            self.world.postgres = Servers(db, token, self.clock)
            cluster.attach_servers(self.world, self.world.postgres)
        self.settle()
        try:
            if switch:
                self.set_switches(switch)
            catalog.plant(self.world, seed, apps, machines, name=seed_name)
            if script is not None:
                self.faults.script(faults.read(script), self.lists)
        except Refusal as refusal:
            raise ValueError(refusal.message) from None
        self._commit(self._settings())

    def handle(self, request: Request) -> Response:
        """Answer at once; the answer's `delay_s` says how long a front must hold it back.

        A wait for a state that is not reached gets the 408 that ends it, though its time has not passed.
        """
        return self.answer(request, self.fault_for(request))

    def fault_for(self, request: Request) -> faults.Fault | None:
        """Take the fault that hits this request; the front waits for its `hold_s` before `answer`."""
        return None if control.owns(request.path) else self.faults.take(request)

    def answer(
        self,
        request: Request,
        fault: faults.Fault | None = None,
        since: float | None = None,
        *,
        again: bool = False,
    ) -> Response:
        """The answer as of now. A front that can wait says `since` when, by the world's clock, it was asked.

        It gets an answer whose `again_s` is not 0 while a better one may come: not logged, not to be
        sent, but to be asked for `again` when the clock has moved or another request was answered.
        """
        self.settle()
        if control.owns(request.path):
            response = self._control_answer(request)
            self._commit(self._settings())
        else:
            before = self.world.revision
            response = (
                Response() if fault and not fault.carries_out else self._platform_answer(request, again)
            )
            if since is not None and self.world.now < min(since + response.again_s, LATEST_S):
                return response
            response.again_s = 0.0
            if fault:
                response = fault.spoil(request, response)
            effect = self.world.revision != before
            at = rfc3339(self.world.now, 3)
            body = self._shown_body(request)
            entry = LogEntry(at, request.method, request.path, response.status, effect, body)
            self._commit(self._settings() if fault else {"clock": self.world.now}, entry)
        response.headers.setdefault("date", http_date(int(self.world.now)))
        request_id = response.headers.setdefault("x-request-id", f"{self._rng.getrandbits(64):016x}")
        if self.extended:
            response.headers.setdefault("fly-request-id", request_id)
        return response

    def settle(self) -> None:
        """End all states that are due."""
        self.world.settle_until(self.clock.now())

    def tick(self) -> None:
        """Settle and store, without a request."""
        self.settle()
        if self.world.changed:
            self._commit({"clock": self.world.now})

    def advance(self, seconds: float) -> None:
        """Move the clock on, as `POST /_sandbox/clock` does."""
        self.clock.advance(seconds)
        if self.world.postgres:
            self.world.postgres.note(self.clock)
        self.tick()

    def set_switches(self, wanted: Mapping[str, Any]) -> None:
        """Raises Refusal 422 for a switch or a value that does not exist."""
        switches.check(wanted)
        before = self.world.switches["extend_needs_restart"]
        if before == "never" != wanted.get("extend_needs_restart", before):
            machine.use_added_space(self.world)  # what was added so far is in use
        self.world.switches.update(wanted)

    def lists(self, glob: str) -> dict[str, Any]:
        """The present answers of all lists whose path matches `glob`, by path."""
        found = {}
        for path, route, parameters in catalog.lists(self.world):
            if fnmatchcase(path, glob):
                with suppress(Refusal):  # the app may be too new to be listed
                    found[path] = route.handler(self.world, Request("GET", path), **parameters).json()
        return found

    def close(self) -> None:
        """Close the database and stop the servers. The sandbox is not to be used afterwards."""
        if self.world.postgres:
            self.world.postgres.close()
        if self.database:
            self.database.close()

    def _platform_answer(self, request: Request, again: bool) -> Response:
        try:
            if request.path.startswith(catalog.OPEN):
                check_body(request)
            request, (route, parameters) = self._found(request)
            access.check_organization(self.world, request, parameters)
            if self.strict and route.guard == "bearer":
                access.check_described(route, request)
            if not again and (limit := _limit(route)):
                self._buckets.take(self.world, route.name, parameters, limit)
            answer = route.handler(self.world, request, **parameters)
            if self.world.switches["nulls"] == "missing" and answer.body and not answer.again_s:
                answer.body = reply(without_nulls(answer.json())).body
            return answer
        except Refusal as refusal:
            return refused(request.path, refusal, self.world.switches["error_text"])

    def _found(self, request: Request) -> tuple[Request, Match]:
        """The request with its organizations, and its route. Only a suspend over the socket needs no token.

        Source: platform API, 4.4 and 5.1.
        """
        match = self._platform.find(request.method, request.path) if request.local else None
        of_itself = match is not None and match[0].handler is suspend
        if not request.path.startswith(catalog.OPEN) and not (
            of_itself and request.headers.get("host", "").partition(":")[0] == SOCKET_HOST
        ):
            request = self._tokens.authorized(request, extended=self.extended)
        return request, match or self._platform.find(request.method, request.path)

    def _shown_body(self, request: Request) -> str:
        """The body for the log: JSON of a call with a token, secrets masked; else nothing."""
        if not request.body:
            return ""
        try:
            route, _ = self._platform.find(request.method, request.path)
            body = request.json() if route.guard == "bearer" else None
        except Refusal:
            return ""
        return "" if body is None else json.dumps(secret.masked(request.path, body))

    def _control_answer(self, request: Request) -> Response:
        try:
            route, parameters = self._control.find(request.method, request.path)
            return route.handler(self, request, **parameters)
        except Refusal as refusal:
            return refused(request.path, refusal)

    def _settings(self) -> dict[str, Any]:
        return {
            "clock": self.world.now,
            "switches": self.world.switches,
            "faults": self.faults.dump(),
            "fingerprint_key": self.world.fingerprint_key.hex(),
        }

    def _commit(self, settings: Mapping[str, Any], entry: LogEntry | None = None) -> None:
        if self.database:
            self.database.commit(self.world.changed, settings, entry)
        self.world.changed.clear()


def _limit(route: Route) -> Limit | None:
    """The rate limit of a route. Sign-in has none: the limits are for calls with the platform's token."""
    if route.guard != "bearer":
        return WEBHOOKS if route.path.startswith(provider.WEBHOOKS) else None
    return READ_MACHINE if route.name == "machine_get" else USUAL


def refused(path: str, refusal: Refusal, text_under: str = "error") -> Response:
    """The error body that the endpoints around `path` are documented or known to send.

    `text_under` is the switch error_text.

    Source: platform API, 7.1 and 7.2; platform notes, "Errors, limits, headers".
    """
    body: dict[str, Any] = {"error": refusal.message}
    if path.split("/")[4:5] == ["secrets"]:
        body = {"details": refusal.details, "error": refusal.message, "status": refusal.code or "not_found"}
    elif refusal.code and path.startswith("/v1/apps/"):
        body["status"] = refusal.code
    response = _ERROR_BODIES[text_under](body, refusal.status)
    response.headers.update(refusal.headers)
    return response


_ERROR_BODIES: Mapping[str, Callable[[dict[str, Any], int], Response]] = {
    "error": reply,
    "message": lambda body, status: reply(
        {"message" if name == "error" else name: value for name, value in body.items()}, status
    ),
    "errors.detail": lambda body, status: reply({"errors": {"detail": body["error"]}}, status),
    "text": lambda body, status: Response(status, body["error"].encode(), "text/plain; charset=utf-8"),
    "empty": lambda body, status: Response(status),
}

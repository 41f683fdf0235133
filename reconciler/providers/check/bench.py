"""What a check works with: the provider, good requests, the sending of any, and a list of what to delete.

At the end the groups of checks: each check has a name, what is demanded, and where that is written.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote

import anyio
from msgspec import Struct

from reconciler.core.clock import Clock
from reconciler.core.errors import ReconcilerError, TransportError
from reconciler.core.wire import is_id
from reconciler.providers.check.request import Draft, Exchange, Request, parsed, send_whole, values_of
from reconciler.services.machines.wire.extension import FAILED_STATUSES, GONE_STATUSES, SETTLED_STATUSES
from reconciler.services.signing import HEADER, Encoding
from reconciler.services.transport import Answer, Transport

POLL_S = 2.0
GONE = (404, 410)
AT_ONCE = 4  # calls
_PATIENCE = 5  # times that a 429 is waited for
_MOST_WAIT_S = 30.0
_SHOWN = ("id", "name", "plan", "primary_region", "read_regions", "organization_id", "user_id")

Send = Callable[[Request, float], Awaitable[Answer]]


class Unmet(Exception):
    """Raised by a check: the provider does not meet the demand."""


class NotChecked(Exception):
    """Raised by a check that cannot decide, because something that it needs is missing."""


class SignInSubject(Struct, frozen=True):
    """The sign-in service that the provider was set up with. `user_id`: who signs in at its page."""

    auth_url: str
    user_id: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The provider to check. `base_url`: {provider_base_url} as it knows it. Seconds are those of the clock.

    Checks that need a missing `webhook_secret`, `costs_path` or `sign_in` are reported as not checked.
    `regions`: two codes that the provider knows, for the read replicas before and after a PATCH.
    """

    base_url: str
    signing_secret: bytes = field(repr=False)
    webhook_secret: bytes | None = field(default=None, repr=False)
    encoding: Encoding = "hex"
    costs_path: str | None = None
    sign_in: SignInSubject | None = None
    organization_id: str = "check-organization"
    user_id: str = "check-user"
    regions: tuple[str, str] = ("ams", "fra")
    deadline_s: float = 30.0
    ready_s: float = 240.0
    slow_body_s: float = 15.0

    def __post_init__(self) -> None:
        if not self.signing_secret:
            raise ReconcilerError("the signing secret is empty")
        if self.webhook_secret is not None and self.webhook_secret == self.signing_secret:
            raise ReconcilerError(
                "the webhook secret is the signing secret",
                help="they must differ (platform API, 5.2 rule 3): otherwise a webhook could be replayed "
                "as a request",
            )

    def url(self, path: str) -> str:
        """The address of one of the provider's paths."""
        return self.base_url.rstrip("/") + path


@dataclass(slots=True)
class Made:
    """A resource of this run. `id`: the provider's; `answer`: to the POST; `statuses`: as they were seen."""

    order: Mapping[str, Any]
    id: str
    answer: Exchange
    statuses: list[str] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Whether the last status that was seen is a final good one."""
        return bool(self.statuses) and self.statuses[-1] in SETTLED_STATUSES


@dataclass(slots=True)
class Shared:
    """What all checks of one run share.

    `pending`: ids to delete at its end, each with the number of its POSTs that made it or may have made it;
    a POST that is answered 4xx did not. `target`: made anew after a call that should have been refused
    changed it. `patient`: whether it is worth waiting for a resource to become ready; not after one never
    did. `refusals`: of two calls without a signature, once a check asked.
    """

    subject: Subject
    transport: Transport
    clock: Clock
    random: Random
    values: set[str] = field(default_factory=set, repr=False)
    pending: dict[str, int] = field(default_factory=dict)
    target: Made | None = None
    refusals: list[Answer] | None = None
    patient: bool = True
    count: int = 0


class Bench:
    """One check's view of the run; `trail` holds what this check sent and what came."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.subject = shared.subject
        self.trail: list[Exchange] = []

    def new_id(self) -> str:
        """An id that no other run and no other resource of this run has."""
        self.shared.count += 1
        return f"check-{self.shared.random.getrandbits(48):012x}-{self.shared.count}"

    def order(self) -> dict[str, Any]:
        """The parameters of a new resource, marked as ours. Source: platform API, 2.7."""
        id = self.new_id()
        return {
            "name": id,
            "id": id,
            "organization_id": self.subject.organization_id,
            "organization_name": "Conformance check",
            "user_id": self.subject.user_id,
            "user_email": "check@alias.invalid",
            "user_role": "admin",
            "read_regions": [self.subject.regions[0]],
        }

    def costs_path(self) -> str:
        """Raises NotChecked when it was not given."""
        if self.subject.costs_path is None:
            raise NotChecked("no path of the costs was given (--costs-path)")
        return self.subject.costs_path

    def draft(self, method: str, path: str, fields: Mapping[str, Any] | None = None) -> Draft:
        """A good request to a path of the provider, not signed yet."""
        return Draft(
            method,
            self.subject.url(path),
            fields or {},
            int(self.shared.clock.now().timestamp()),
            f"{self.shared.random.getrandbits(128):032x}",
            self.subject.encoding,
            self.subject.signing_secret,
            f"{self.shared.random.getrandbits(256):064x}".encode(),
            self.subject.webhook_secret,
        )

    async def call(self, method: str, path: str, fields: Mapping[str, Any] | None = None) -> Answer:
        """Send a good call, and note a POST as pending: its resource is deleted at the end.

        It is signed anew after a 429: the provider may have used up the nonce before it counted the call.
        """

        def attempt() -> Awaitable[Answer]:
            return self.attempt(self.draft(method, path, fields).request())

        if method != "POST" or not fields:
            return await self.wait_out(attempt)
        id, pending = str(fields["id"]), self.shared.pending
        pending[id] = pending.get(id, 0) + 1  # before it is sent: the run may be cut off
        answer = await self.wait_out(attempt)
        if 400 <= answer.status < 500:
            pending[id] -= 1
        return answer

    async def send(self, request: Request) -> Answer:
        """The answer to `request`, waiting out a 429. Raises Unmet when there is none."""
        return await self.wait_out(lambda: self.attempt(request))

    async def wait_out(self, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer of `attempt`, which is repeated while that is a 429, after the time that it names."""
        for _ in range(_PATIENCE):
            answer = await attempt()
            if answer.status != 429:
                break
            after = answer.headers.get("retry-after", "")
            await self.shared.clock.sleep(min(float(after), _MOST_WAIT_S) if after.isdecimal() else 1.0)
        return answer

    async def attempt(self, request: Request, send: Send | None = None) -> Answer:
        """Send once. Raises Unmet when there is no answer."""
        send = send or (self._send if len(request.signatures) < 2 else send_whole)
        try:
            answer = await send(request, self.subject.deadline_s)
        except TransportError as failure:
            self.trail.append(Exchange(request, None, failure.message))
            raise Unmet(f"no answer: {failure.message}") from None
        self.shared.values |= values_of(answer)
        self.trail.append(Exchange(request, answer))
        return answer

    async def _send(self, request: Request, deadline_s: float) -> Answer:
        headers = {**request.headers, "accept": "application/json"}
        if request.signatures:
            headers[HEADER] = request.signatures[0]
        return await self.shared.transport.request(
            request.method, request.url, headers=headers, body=request.body or None, deadline_s=deadline_s
        )

    async def suspect_order(self) -> dict[str, Any]:
        """An order that must not be carried out; whatever it makes is deleted at the end.

        Raises NotChecked where good calls are refused, too: there a refusal says nothing.
        """
        await self.target()
        order = self.order()
        self.shared.pending[str(order["id"])] = 1
        return order

    async def at_once(self, send: "Callable[[Bench], Awaitable[object]]") -> "list[Bench]":
        """Views of this run that did `send` at the same time; the last exchange of each joins the trail."""

        async def one(bench: Bench) -> None:
            try:
                await send(bench)
            except Unmet:
                return  # its exchange says that there is no answer

        benches = [Bench(self.shared) for _ in range(AT_ONCE)]
        async with anyio.create_task_group() as tasks:
            for bench in benches:
                tasks.start_soon(one, bench)
        self.trail += [bench.trail[-1] for bench in benches]
        return benches

    async def target(self) -> Made:
        """A resource that the checks share. Raises NotChecked when none can be made."""
        if self.shared.target is None:
            try:
                self.shared.target = await Bench(self.shared).make(self.order())
            except Unmet as problem:
                raise NotChecked(f"no resource can be provisioned: {problem}") from None
        return self.shared.target

    async def make(self, order: Mapping[str, Any]) -> Made:
        """Provision a resource, and wait until it is ready or has failed. Raises Unmet."""
        answer = await self.call("POST", "/extensions", order)
        object_of(answer)
        id = id_of(succeeded(answer, "provisioning"))
        self.shared.pending.setdefault(id, 1)
        if not is_id(id):
            raise Unmet("the `id` in the answer to provisioning has a character that an id may not have")
        made = Made(order, id, self.trail[-1])
        await self.settle(made)
        return made

    async def settle(self, made: Made) -> None:
        """Poll as the platform's clients do, until `ready` or `error` or the deadline."""
        clock = self.shared.clock
        until = clock.monotonic() + self.subject.ready_s
        while True:
            answer = await self.call("GET", path_of(made.id))
            body = parsed(answer)
            status = body.get("status") if isinstance(body, dict) else None
            if answer.status != 200 or not isinstance(status, str):
                return
            made.statuses.append(status)
            if status in (*SETTLED_STATUSES, *FAILED_STATUSES, *GONE_STATUSES) or not self.shared.patient:
                return
            if clock.monotonic() + POLL_S > until:
                self.shared.patient = False
                return
            await clock.sleep(POLL_S)

    async def shown(self, id: str) -> dict[str, Any] | None:
        """The shown fields that only a call changes; None when the resource is gone."""
        answer = await self.call("GET", path_of(id))
        if answer.status in GONE:
            return None
        body = object_of(succeeded(answer, "GET of a resource"))
        if says_gone(body):
            return None
        return {name: body[name] for name in _SHOWN if name in body}

    async def expect_nothing_made(self, order: Mapping[str, Any], problem: str) -> None:
        """Raises Unmet with `problem`, and the last exchange, when the order was carried out."""
        exchange = self.trail[-1]
        if await self.shown(str(order["id"])) is not None:
            self.trail.append(exchange)
            raise Unmet(problem)


def path_of(id: str) -> str:
    """The path of a resource, with its id percent-encoded."""
    return f"/extensions/{quote(id, safe='')}"


def is_success(answer: Answer) -> bool:
    """Whether the status is 2xx."""
    return 200 <= answer.status < 300


def webhook_secret_of(draft: Draft) -> bytes:
    """Raises NotChecked when it was not given."""
    if draft.webhook_secret is None:
        raise NotChecked("the webhook secret was not given")
    return draft.webhook_secret


def check_refused(answer: Answer) -> None:
    """Raises Unmet for an answer below 400 or from 500."""
    if not 400 <= answer.status < 500:
        raise Unmet(f"it was answered {answer.status}")


def succeeded(answer: Answer, call: str) -> Answer:
    """The answer, if it is a success. Raises Unmet, which names the call."""
    if not is_success(answer):
        raise Unmet(f"{call} was answered {answer.status}")
    return answer


def object_of(answer: Answer) -> dict[str, Any]:
    """The body. Raises Unmet when it is not a JSON object."""
    body = parsed(answer)
    if not isinstance(body, dict):
        raise Unmet(f"the answer ({answer.status}) is not a JSON object")
    return body


def id_of(answer: Answer) -> str:
    """The id of the resource in an answer to provisioning. Raises Unmet when there is none."""
    id = object_of(answer).get("id")
    if not isinstance(id, str) or not id:
        raise Unmet("the answer to provisioning has no `id`")
    return id


def says_gone(body: Mapping[str, Any]) -> bool:
    """Whether a resource is gone by the status in its body, which may be anything."""
    return str(body.get("status")) in GONE_STATUSES


def same(before: Any, after: Any) -> bool:
    """Whether both values are the same JSON, in any order of keys."""
    return json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)


Play = Callable[[Bench], Awaitable[None]]


class Check(Struct, frozen=True):
    """`play` raises Unmet or NotChecked; when it returns, the demand is met."""

    group: str
    name: str
    demand: str
    source: str
    play: Play

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"


class Group:
    """The `checks` of a group. Called with a name, the demand and its source, it decorates another one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.checks: list[Check] = []

    def __call__(self, name: str, demand: str, source: str) -> Callable[[Play], Play]:
        def register(play: Play) -> Play:
            assert all(known.name != name for known in self.checks), name
            self.checks.append(Check(self.name, name, demand, source, play))
            return play

        return register

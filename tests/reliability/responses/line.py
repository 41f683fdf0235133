"""The real transport over a line without a network: the sandbox answers, and some answers are mutated."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from urllib.parse import urlsplit

import httpx

from reconciler.core.errors import Lost, NotSent
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.exchange import Request
from reconciler.services.http1 import CookielessClient, Http1Response
from reconciler.services.transport import HttpTransport
from tests.reliability.responses.mutation import Given, Kind, mutated


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came back. `number`: how many such requests there were before.

    `kind`: how the answer was mutated, "" when it was not. `carried_out`: the platform did as it was told.
    """

    method: str
    path: str
    number: int
    body: bytes
    given: Given
    kind: Kind | str
    carried_out: bool

    @property
    def mutates(self) -> bool:
        return self.method != "GET"


@dataclass(frozen=True, slots=True)
class Mutator:
    """Which answers are mutated, and how; the same for the same seed, in whatever order requests come."""

    seed: str
    reads: dict[Kind, float]
    replies: dict[Kind, float]

    def __call__(self, method: str, path: str, number: int) -> tuple[Kind | None, bool, Random]:
        """The kind of mutation, and whether the platform carries the request out all the same."""
        rng = Random(f"{self.seed} {method} {path} {number}")
        shares = self.reads if method == "GET" else self.replies
        point = rng.random()
        for kind, share in shares.items():
            point -= share
            if point < 0:
                return kind, rng.random() < 0.6, rng
        return None, True, rng


@dataclass(frozen=True, slots=True)
class Recorded:
    """Mutations that were noted, for a regression."""

    answers: dict[tuple[str, str, int], tuple[Kind, bool, Given]]


class MutatingTransport(HttpTransport):
    """Everything of the transport but the network. `exchanges` is what went over the line."""

    def __init__(self, sandbox: Sandbox, base_url: str, mutations: Mutator | Recorded) -> None:
        super().__init__(base_url)
        self.exchanges: list[Exchange] = []
        self._answering = _Answering(sandbox, mutations, self.exchanges)

    def _open(self) -> httpx.AsyncClient:
        return CookielessClient(self._answering)


class _Answering(httpx.AsyncBaseTransport):
    def __init__(self, sandbox: Sandbox, mutations: Mutator | Recorded, exchanges: list[Exchange]) -> None:
        self._sandbox = sandbox
        self._mutations = mutations
        self._exchanges = exchanges
        self._numbers: Counter[tuple[str, str]] = Counter()

    async def aclose(self) -> None:
        return None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        parts = urlsplit(str(request.url))
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        body = b"".join([piece async for piece in request.stream])  # type: ignore[union-attr]
        number = self._numbers[request.method, path]
        self._numbers[request.method, path] += 1

        def right() -> Given:
            headers = {name.lower(): value for name, value in request.headers.items()}
            answer = self._sandbox.handle(Request(request.method, parts.path, parts.query, headers, body))
            given = {**answer.headers, "content-type": answer.content_type}
            pairs = tuple((name.encode(), value.encode()) for name, value in given.items())
            return Given(answer.status, pairs, answer.body, "read" if answer.cut else "")

        given, kind, carried_out = self._given(request.method, path, number, right)
        self._exchanges.append(Exchange(request.method, path, number, body, given, kind, carried_out))
        if given.failure:
            raise NotSent("refused") if given.failure == "connect" else Lost(given.failure)
        return Http1Response(given.status, headers=list(given.headers), stream=httpx.ByteStream(given.body))

    def _given(
        self, method: str, path: str, number: int, right: Callable[[], Given]
    ) -> tuple[Given, Kind | str, bool]:
        if isinstance(self._mutations, Recorded):
            noted = self._mutations.answers.get((method, path, number))
            if noted is None:
                answer = right()
                return answer, "", answer.status < 300
            kind, carried_out, given = noted
            if carried_out:
                right()
            return given, kind, carried_out
        chosen, landed, rng = self._mutations(method, path, number)
        if chosen is None:
            answer = right()
            return answer, "", answer.status < 300
        if method != "GET" and not landed:
            return self._never_landed(rng, chosen), chosen, False
        answer = right()
        return mutated(answer, chosen, rng), chosen, answer.status < 300

    def _never_landed(self, rng: Random, kind: Kind) -> Given:
        """What is said of a request that the platform never carried out: no success, unless it is lying."""
        if rng.random() < 0.15:
            return Given(failure="connect")
        says = Given(
            rng.choice((500, 502, 503, 408, 504)),
            ((b"content-type", b"application/json"),),
            b'{"error":"no"}',
        )
        if kind == "lying":
            return replace(says, status=200, body=rng.choice((b"{}", b"", b"null", b'{"error":"ok"}', b"[]")))
        found = mutated(says, "broken" if kind == "broken" else "extra", rng)
        return found if found.status >= 300 or found.failure else replace(found, status=503)

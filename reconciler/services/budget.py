"""How many requests a command makes at least, and how long the rate limits alone take for them."""

from collections import Counter
from collections.abc import Iterable

from reconciler.core.steps import Call, Method, Template
from reconciler.core.words import in_words
from reconciler.services.rate import BURST
from reconciler.services.registry import Services

WORTH_TELLING_S = 2.0

Line = tuple[str, str]  # a service, and what its rate limit counts as one action


def line_of(services: Services, service: str, method: Method, path: str | Template) -> Line:
    """Where a request stands in line. All those of a service without a limit stand in one."""
    client = services.clients.get(service)
    if client is None or client.rate_limit is None:
        return service, ""
    return service, client.action(Call(method, _plain(path)))


def _plain(path: str | Template) -> str:
    """With a name for what earlier answers bring, the same wherever it is the same."""
    if isinstance(path, str):
        return path
    return "".join(part if isinstance(part, str) else str(part).replace("/", ":") for part in path.parts)


class Budget:
    """Of all requests that a command has known of so far, in groups: each begins when the one before is over.

    `limited_s`: how long all of them take if answers come at once, and none is refused.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.limited_s = 0.0
        self.is_limited = False  # whether any of them stands in line for a limit
        self._full_s: dict[Line, float] = {}  # when as many may go out at once as the limit allows

    def add(self, services: Services, lines: Iterable[Line]) -> str:
        """Add a group, and return what to say before it is sent; "" where its limits cost next to nothing."""
        began_s, requests = self.limited_s, 0
        for line, number in Counter(lines).items():
            requests += number
            client = services.clients.get(line[0])
            if client is not None and client.rate_limit is not None:
                self.is_limited = True
                full_s = max(self._full_s.get(line, 0.0), began_s) + number / client.rate_limit
                self._full_s[line] = full_s
                self.limited_s = max(self.limited_s, full_s - BURST / client.rate_limit)
        self.requests += requests
        takes_s = self.limited_s - began_s
        if takes_s < WORTH_TELLING_S:
            return ""
        return f"{requests:,} requests; the platform's limits allow them in about {in_words(takes_s)}"

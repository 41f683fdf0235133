"""A platform at a distance, in simulated time for many tasks at once."""

from collections.abc import Callable, Collection, Mapping

import anyio
from anyio.lowlevel import checkpoint

from reconciler.core.errors import Lost, Refused
from reconciler.core.steps import Plan
from reconciler.project.run import Applied
from reconciler.services.platform import platform_client
from reconciler.services.rate import RateLimit
from reconciler.services.transport import Answer
from tests.execution.stage import TOKEN, Stage, Time, volume

ADDRESS = "https://platform.example"
ANSWER_S = 0.2


class SharedTime(Time):
    """Simulated time for many tasks at once: when all of them wait, it is the next one's moment."""

    def __init__(self) -> None:
        super().__init__()
        self._sleeping: list[tuple[float, anyio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        woken = anyio.Event()
        self._sleeping.append((self.elapsed_s + max(0.0, seconds), woken))
        await woken.wait()

    async def run(self) -> None:
        while True:
            for _ in range(20):  # usually enough: anyio looks only ten times a second
                await checkpoint()
            await anyio.wait_all_tasks_blocked()
            if not self._sleeping:
                await anyio.sleep(0.001)
                continue
            self.elapsed_s = min(until for until, _ in self._sleeping)
            due = [each for each in self._sleeping if each[0] <= self.elapsed_s]
            self._sleeping = [each for each in self._sleeping if each not in due]
            for _, woken in due:
                woken.set()


class Far:
    """The sandbox behind `ANSWER_S` of network, at an address that is no loopback, so that limits hold.

    `lost`: so many answers to POST get lost, before the call has an effect. `refused`: so many are 429.
    """

    def __init__(self, stage: Stage, *, rate_limit: float | None = 1.0) -> None:
        self._stage = stage
        self.sent: list[tuple[str, str, float]] = []
        self.lost = self.refused = 0
        self.down: int | Lost = 0  # what every GET is answered
        self.down_after_a_loss = 0  # the same, once an answer got lost
        self.given_up: Collection[str] = ()  # paths of GETs that are asked to wait longer than anybody does
        self.refusal: Mapping[str, str] = {"retry-after": "2"}
        self.slow_s: Mapping[str, float] = {}  # how much longer the first three of a method are on their way
        self.too_many = 0
        self.asks: Mapping[str, str] = {}  # headers of what every GET is answered while `down`
        stage.platform = platform_client(
            self,
            ADDRESS,
            lambda: TOKEN,
            stage.time,
            rate=RateLimit(
                rate_limit, stage.time, waiting=lambda *told: stage.reporter.waiting_for_limit(*told)
            ),
            jitter=lambda: 1.0,
        )

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        path = url.removeprefix(ADDRESS)
        self.sent.append((method, path, self._stage.time.elapsed_s))
        is_slow = sum(each == method for each, _, _ in self.sent) <= 3
        await self._stage.time.sleep(ANSWER_S + self.slow_s.get(method, 0.0) * is_slow)
        if method == "GET" and path in self.given_up:
            return Answer(503, {"retry-after": "60"}, b"")
        if self.down and method == "GET":
            if isinstance(self.down, Lost):
                raise self.down
            return Answer(self.down, self.asks, b"")
        if method == "POST" and self.lost:
            self.lost -= 1
            self.down = self.down or self.down_after_a_loss
            raise Lost("cut")
        if method == "POST" and self.refused:
            self.refused -= 1
            return Answer(429, self.refusal, b"")
        answer = await self._stage.line.request(
            method, url, headers=headers, body=body, deadline_s=deadline_s
        )
        self.too_many += answer.status == 429
        return answer

    async def aclose(self) -> None:
        """Nothing is open."""

    def times(self, method: str, path: str = "") -> list[float]:
        return [at_s for each, to, at_s in self.sent if each == method and to.startswith(path)]


async def applied(
    stage: Stage, manifests: str, approve: Callable[[Plan], bool] = lambda plan: True
) -> Applied:
    assert isinstance(stage.time, SharedTime)
    refused: list[Refused] = []
    async with anyio.create_task_group() as group:
        group.start_soon(stage.time.run)
        try:
            found = await stage.apply(manifests, approve=approve)
        except Refused as failure:
            refused.append(failure)
        group.cancel_scope.cancel()
    if refused:
        raise refused[0]
    return found


def add_apps(stage: Stage, apps: int) -> None:
    for app in range(apps):
        body = {"name": f"app{app}", "org_slug": "personal", "primary_region": "ams"}
        stage.call("POST", "/_sandbox/apps", body)


def of_apps(apps: int, each: int) -> str:
    return "".join(
        volume(f"data{number}").replace("app: shop", f"app: app{app}")
        for app in range(apps)
        for number in range(each)
    )

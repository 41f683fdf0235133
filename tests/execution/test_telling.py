"""What a person is told while a run waits: a line each 30 s in a log, a count on a terminal."""

import io
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import anyio
import pytest
from rich.console import Console

from reconciler.cli.live import LiveReporter
from reconciler.cli.progress import PlainReporter
from reconciler.core.errors import Locked
from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Call, Step
from reconciler.execution import leasing
from reconciler.execution.leasing import leased
from reconciler.state.store import Lease, Store
from tests.execution.stage import Stage, cluster, volume
from tests.state.doubles import made, spooling

VOLUMES = "/v1/apps/shop/volumes"
CREATE = "Volume/shop/data#create"


Log = Callable[[str], Awaitable[list[str]]]


@pytest.fixture
def log(stage: Stage, capsys: pytest.CaptureFixture[str]) -> Log:
    """Applies manifests; the lines of the log meanwhile."""

    async def applied(manifests: str) -> list[str]:
        stage.reporter = PlainReporter()
        capsys.readouterr()
        await stage.apply(manifests)
        return capsys.readouterr().err.splitlines()

    return applied


async def test_a_settle_window_is_counted_down_in_a_log(stage: Stage, log: Log) -> None:
    stage.limit(settle_s=100)
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    told = [line for line in await log(volume()) if "may appear" in line]
    what = "Volume/shop/data: the outcome of a call is unknown; its object may appear within"
    assert told == [f"{what} {left_s} s" for left_s in (100, 70, 40, 10)]


async def test_what_an_earlier_run_left_open_is_counted_down_too(stage: Stage, log: Log) -> None:
    stage.limit(settle_s=1, adopt_inferred=False)
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    await stage.apply(volume())
    stage.limit(settle_s=100, adopt_inferred=True)
    told = [line for line in await log(volume()) if "may appear" in line]
    assert len(told) == 4


async def test_a_lost_absolute_call_says_when_it_is_sent_again(stage: Stage, log: Log) -> None:
    await stage.apply(volume())
    stage.limit(deadline_s=70, settle_s=100)
    stage.fault(method="PUT", path="*", action="drop_before")
    told = await log(volume(spec="region: ams, size_gb: 20"))
    again = [line for line in told if "again in" in line]
    what = "Volume/shop/data#extend: its answer was lost, sent again in"
    assert again == [f"{what} {left_s} s" for left_s in (70, 40, 10)]


async def test_the_time_that_a_429_asks_for_is_counted_down(stage: Stage, log: Log) -> None:
    stage.fault(method="POST", path=VOLUMES, action="status", status=429, headers={"retry-after": "50"})
    told = [line for line in await log(volume()) if "429" in line]
    assert told == [f"{CREATE}: refused with 429, tried again in {left_s} s" for left_s in (50, 20)]


async def test_a_cluster_that_is_being_made_is_told_about_each_30_s(stage: Stage, log: Log) -> None:
    lines = await log(cluster("lifecycle: {timeout_s: 100}\n"))
    seconds = [int(found[1]) for line in lines if (found := re.search(r"still \w+ after (\d+) s", line))]
    assert len(seconds) == 3
    assert all(30 * number <= told < 30 * number + 6 for number, told in enumerate(seconds, 1))


async def test_a_wait_that_reads_nothing_but_errors_says_which(stage: Stage, log: Log) -> None:
    stage.fault(method="GET", path="/v1/postgres/*", action="status", status=503, times=100)
    lines = await log(cluster("lifecycle: {timeout_s: 100}\n"))
    assert any("still not seen (GET /v1/postgres/" in line and "503" in line for line in lines)


async def test_a_wait_for_a_lock_says_who_holds_it_and_since_when(stage: Stage, log: Log) -> None:
    stage.store = spooling(made(stage.time, lease_s=70), stage.time, stage.root)
    stage.lock_timeout_s = 100
    await stage.store.lease(["shop"], "ada on laptop")
    await stage.time.sleep(5)
    told = [line for line in await log(volume()) if "lock" in line]
    what = "waiting for the lock of `shop`: ada on laptop has held it for"
    assert told == [
        f"{what} 5 s; this run waits 100 s more",
        f"{what} 35 s; this run waits 70 s more",
        f"{what} 65 s; this run waits 40 s more",
    ]
    assert len(stage.volumes()) == 1


async def test_a_wait_for_a_lock_ends_when_it_was_told_to(
    stage: Stage, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.lock_timeout_s = 40
    await stage.store.lease(["shop"], "ada on laptop")
    with pytest.raises(Locked) as locked:
        await log(volume())
    assert (stage.time.elapsed_s, locked.value.age_s) == (40, 40)
    told = [line for line in capsys.readouterr().err.splitlines() if "lock" in line]
    assert [line.partition("; ")[2] for line in told] == [f"this run waits {s} s more" for s in (40, 10)]


async def test_who_does_not_wait_for_a_lock_is_told_only_the_error(
    stage: Stage, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    await stage.store.lease(["shop"], "ada on laptop")
    with pytest.raises(Locked):
        await log(volume())
    assert "waiting" not in capsys.readouterr().err


class HeldInTurn(Store):
    """Another scope is found held each time that somebody asks."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.asked_s: list[float] = []

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        self.asked_s.append(timeout_s)
        if len(self.asked_s) <= len(scopes):
            raise Locked(scopes[len(self.asked_s) - 1], "ada on laptop", 40)
        return await super().lease(scopes, holder, timeout_s=timeout_s)


async def test_each_scope_that_is_waited_for_is_named_until_it_is_free(stage: Stage) -> None:
    told: list[tuple[str, float]] = []

    class Listening(Reporter):
        def waiting_for_lock(self, held: Locked, left_s: float) -> None:
            told.append((held.scope, left_s))

    store = HeldInTurn(stage.store)
    async with leased(store, {"shop", "blog"}, "ben", timeout_s=100, reporter=Listening()):
        assert store.asked_s == [0.0, 30, 30]
        assert list(await store.journal()) == []
    assert told == [("blog", 100), ("blog", 0), ("shop", 70), ("shop", 0)]


def test_reading_is_told_about_each_30_s(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = PlainReporter()
    for done in range(1, 101):
        reporter.observing(done, 100, done)
    assert capsys.readouterr().err.splitlines() == [
        f"reading the platform: {done} of 100 after {done} s" for done in (30, 60, 90)
    ]


def test_a_wait_for_the_limit_is_told_about_each_30_s(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = PlainReporter()
    for waited_s in (*range(70), *range(40)):
        reporter.waiting_for_limit("GET apps/shop/volumes", 100 - waited_s, 100, waited_s)
    reporter.waiting_for_limit("GET apps/shop/volumes", 0, 100, 70)
    assert capsys.readouterr().err.splitlines() == [
        f"waiting for the limit of GET apps/shop/volumes: {left} of 100 left" for left in (70, 40, 70)
    ]


def test_a_terminal_shows_which_limit_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    console = Console(file=io.StringIO(), force_terminal=True, soft_wrap=True, width=120)
    reporter = LiveReporter(console, now_s=lambda: 100.0)
    waiting = "waiting for the limit of GET apps/shop/volumes: 12 of 20 left"
    reporter.waiting_for_limit("GET apps/shop/volumes", 12, 20, 1)
    assert str(reporter.__rich__()) == waiting
    reporter.observing(8, 20, 4)
    assert str(reporter.__rich__()) == f"reading the platform: 8 of 20 (4 s); {waiting}"
    reporter.waiting_for_limit("GET apps/shop/volumes", 0, 20, 13)
    assert str(reporter.__rich__()) == "reading the platform: 8 of 20 (4 s)"


def test_a_terminal_counts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    seconds = [100.0]
    console = Console(file=io.StringIO(), force_terminal=True, soft_wrap=True, width=120)
    reporter = LiveReporter(console, now_s=lambda: seconds[0])

    def shown() -> str:
        return str(reporter.__rich__())

    step = Step(CREATE, Address("Volume", "data", "shop"), Call("POST", VOLUMES))
    reporter.step_started(step)
    reporter.step_waiting(step, "creating", 12)
    seconds[0] += 4
    assert f"{CREATE} (creating, 16 s)" in shown()
    reporter.asked_to_wait(step, 50)
    seconds[0] += 20
    assert f"{CREATE} (refused with 429, again in 30 s)" in shown()
    reporter.settling(step.address, 180)
    seconds[0] += 200
    assert "its object may appear within 0 s" in shown()
    reporter.settling(step.address, 0)
    assert "evidence" not in shown()
    reporter.step_finished(step, "done", 250, "vol_1")
    reporter.waiting_for_lock(Locked("shop", "ada on laptop", 40), 60)
    seconds[0] += 7
    assert "the lock of `shop` (ada on laptop has held it for 47 s)" in shown()
    reporter.waiting_for_lock(Locked("shop", "ada on laptop", 40), 0)
    assert shown() == ""


class WaitsForTheDead(Store):
    """Gives a lease once somebody has asked who holds it: one that may be dead, and one that lives."""

    def __init__(self, inner: Store, *, has_dead: bool) -> None:
        super().__init__(inner)
        self.known, self.has_dead = anyio.Event(), has_dead

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        await self.known.wait()
        return await super().lease(scopes, holder, timeout_s=timeout_s)

    async def holders(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        self.known.set()
        dead = {scope: Locked(scope, "ada on laptop", 400, 63) for scope in scopes if self.has_dead}
        return {"another": Locked("another", "who lives", 3)} | dead


@pytest.mark.parametrize(
    ("has_dead", "expected"), [(True, [("ada on laptop", 63), ("ada on laptop", 0)]), (False, [])]
)
async def test_a_wait_for_a_holder_that_may_be_dead_says_who_it_was_and_how_long_it_takes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, has_dead: bool, expected: list[tuple[str, float]]
) -> None:
    monkeypatch.setattr(leasing, "_SILENT_S", 0)
    store = WaitsForTheDead(stage.store.inner, has_dead=has_dead)
    stage.store = spooling(store, stage.time, stage.root)
    told: list[tuple[str, float]] = []

    class Listening(Reporter):
        def waiting_for_lock(self, held: Locked, left_s: float) -> None:
            told.append((held.holder, left_s))

    stage.reporter = Listening()
    await stage.apply(volume())
    assert told == expected
    assert len(stage.volumes()) == 1

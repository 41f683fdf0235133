"""Webhooks reach the platform: late if need be, in order, from one worker, and recognisable."""

import json
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import anyio
from structlog.testing import capture_logs

from reconciler.core.errors import Lost
from reconciler.providers.kit import ProviderSettings, Report
from reconciler.providers.kit.store import Store
from reconciler.providers.kit.webhooks import Outbox
from reconciler.services import signing
from reconciler.services.transport import Answer
from tests.providers.kit.stage import PUBLIC_URL, SECRET, Counting, StageClock, settle, staged

URL = "https://platform.example.com/webhooks/databases?token=part-of-the-address"
HOUR_S = 3600
WEBHOOKS: dict[str, Any] = {"webhook_url": URL, "webhook_secret": b"the webhook secret"}


class Receiver:
    """Plays the platform's intake: verifies, and answers `statuses` in turn, the last one for ever."""

    def __init__(self, clock: StageClock, *statuses: int | Exception) -> None:
        self.clock, self.statuses = clock, statuses or (204,)
        self.bodies: list[tuple[float, bytes]] = []
        self.taken: list[Any] = []
        self.gate: anyio.Event | None = None
        self._claimed: set[str] = set()

    async def request(self, method: str, url: str, *, headers: Any, body: Any, deadline_s: float) -> Answer:
        assert (method, url) == ("POST", URL)
        self.bodies.append((self.clock.elapsed_s, body))
        if self.gate is not None:
            await self.gate.wait()
        status = self.statuses[min(len(self.bodies), len(self.statuses)) - 1]
        message = signing.verify_webhook(
            [headers[signing.HEADER]],
            body,
            [WEBHOOKS["webhook_secret"]],
            now=self.clock.now().timestamp(),
            claim=self._claim,
        )
        if isinstance(status, Exception):
            raise status
        if status < 300 and message is not None:
            self.taken.append(message)
        return Answer(status, {}, b"")

    async def aclose(self) -> None:
        """Nothing is open."""

    def _claim(self, digest: str) -> bool:
        new = digest not in self._claimed
        self._claimed.add(digest)
        return new


def _outbox(store: Store, clock: StageClock, receiver: Receiver) -> Outbox:
    settings = ProviderSettings(PUBLIC_URL, Path("unused"), [SECRET.encode()], **WEBHOOKS)
    return Outbox(settings, store, clock, receiver, Random(1))


def _next_at(store: Store) -> float | None:
    """When the next line is due; None when nothing waits."""
    found = store.row("SELECT min(next_at) AS at FROM outbox WHERE outcome = 'waiting'")
    return None if found is None else found["at"]


async def _until_nothing_waits(outbox: Outbox, store: Store, clock: StageClock) -> None:
    while (at := _next_at(store)) is not None:
        clock.elapsed_s += max(0.0, at - clock.now().timestamp()) + 0.001  # times are whole microseconds
        await outbox.send_due()


async def test_each_change_is_told_once_and_signed(store: Path) -> None:
    clock, functions = StageClock(), Counting()
    receiver = Receiver(clock)
    async with staged(store, functions, clock, transport=receiver, **WEBHOOKS) as stage:
        await stage.provision("a")
        await stage.provision("a")
        await stage.call("PATCH", "/extensions/a", {"read_regions": ["fra"]})
        functions.report = Report("sleeping", "standard")
        await stage.call("GET", "/extensions/a")
        await stage.call("GET", "/extensions/a")
        await stage.call("DELETE", "/extensions/a")
        await clock.advance(2)
    seen = [(message["action"], message["resource"]["status"]) for message in receiver.taken]
    assert seen == [
        ("resource.created", "ready"),
        ("resource.updated", "ready"),
        ("resource.updated", "sleeping"),
        ("resource.deleted", "deleted"),
    ]
    created = receiver.taken[0]
    assert isinstance(created["timestamp"], str)
    assert created["resource"]["organization_id"] == "org-1"
    assert created["resource"]["user_id"] == "user-1"
    assert b"PASSWORD" not in b"".join(body for _, body in receiver.bodies)


async def test_a_state_that_changes_by_itself_is_noticed_without_being_asked(store: Path) -> None:
    clock, functions = StageClock(), Counting()
    receiver = Receiver(clock)
    async with staged(store, functions, clock, transport=receiver, **WEBHOOKS) as stage:
        await stage.provision("a")
        functions.report = Report("sleeping")
        await clock.advance(65)
    assert [message["resource"]["status"] for message in receiver.taken] == ["ready", "sleeping"]


async def test_a_retry_is_the_same_bytes_while_they_are_valid_and_signed_again_later(tmp_path: Path) -> None:
    clock, store = StageClock(), Store(tmp_path / "p.db")
    receiver = Receiver(clock, *[Lost("no answer")] * 12, 204)
    outbox = _outbox(store, clock, receiver)
    outbox.add("resource.created", {"id": "a"}, clock.now().timestamp())
    await _until_nothing_waits(outbox, store, clock)
    store.close()
    assert len(receiver.bodies) == 13
    bodies: dict[bytes, list[float]] = {}
    for at, body in receiver.bodies:
        bodies.setdefault(body, []).append(at)
    assert 1 < len(bodies) < len(receiver.bodies)
    for times in bodies.values():
        assert max(times) - min(times) <= signing.TOLERANCE_S - 60
    said = {json.dumps({**json.loads(body), "timestamp": ""}) for body in bodies}
    assert len(said) == 1  # apart from the time it is the same message


async def test_retries_are_spread_over_hours_and_then_given_up_in_the_open(tmp_path: Path) -> None:
    with capture_logs() as logs:
        clock, store = StageClock(), Store(tmp_path / "p.db")
        receiver = Receiver(clock, 500)
        outbox = _outbox(store, clock, receiver)
        outbox.add("resource.created", {"id": "a"}, clock.now().timestamp())
        await _until_nothing_waits(outbox, store, clock)
        times = [at for at, _ in receiver.bodies]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert 2.5 <= gaps[0] <= 5
        assert all(gap <= 900 for gap in gaps)
        assert len({round(gap) for gap in gaps[10:]}) > 10  # jitter
        assert 24 * HOUR_S <= times[-1] <= 24.3 * HOUR_S
        assert outbox.unsent("a") == 1
        store.close()
    assert [log["reason"] for log in logs if log["event"] == "webhook.given_up"] == ["status 500"]
    assert "part-of-the-address" not in json.dumps(logs)


async def test_one_resource_is_told_in_order_and_does_not_hold_another_up(tmp_path: Path) -> None:
    clock, store = StageClock(), Store(tmp_path / "p.db")
    receiver = Receiver(clock, 503, 204)
    outbox, now = _outbox(store, clock, receiver), clock.now().timestamp()
    for action, id in (("created", "a"), ("deleted", "a"), ("created", "b")):
        outbox.add(f"resource.{action}", {"id": id}, now)
    await outbox.send_due()
    assert [(message["action"], message["resource"]["id"]) for message in receiver.taken] == [
        ("resource.created", "b")
    ]
    # The first body came before its refusal: so the receiver knows it, and takes it as a duplicate.
    await _until_nothing_waits(outbox, store, clock)
    actions = [
        (json.loads(body)["action"], json.loads(body)["resource"]["id"]) for _, body in receiver.bodies
    ]
    assert actions[-2:] == [("resource.created", "a"), ("resource.deleted", "a")]
    store.close()


async def test_only_one_worker_sends_and_another_takes_over(store: Path) -> None:
    clock = StageClock()
    one, other = Receiver(clock), Receiver(clock)
    one.gate = other.gate = gate = anyio.Event()
    async with staged(store, Counting(), clock, transport=other, **WEBHOOKS) as second:
        async with staged(store, Counting(), clock, transport=one, **WEBHOOKS):
            await settle()
            await second.provision("a")
            await clock.advance(3)
            # Whoever sends waits for its answer, and the other one does not send meanwhile.
            assert len(one.bodies) + len(other.bodies) == 1
            gate.set()
            await settle()
        await second.provision("b")
        await clock.advance(3)
        assert len(one.bodies) + len(other.bodies) == 2


async def test_what_was_not_sent_is_sent_after_a_restart(store: Path) -> None:
    clock = StageClock()
    deaf, hears = Receiver(clock, Lost("gone")), Receiver(clock)
    async with staged(store, Counting(), clock, transport=deaf, **WEBHOOKS) as stage:
        await stage.provision("a")
        await clock.advance(2)
    async with staged(store, Counting(), clock, transport=hears, **WEBHOOKS):
        await clock.advance(10)
    assert len(hears.taken) == 1
    assert hears.bodies[0][1] == deaf.bodies[0][1]  # the same bytes: it may have arrived

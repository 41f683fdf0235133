"""When calls are sent: turns, slots and evidence; and what stops them: 401, 429, and lost answers."""

import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import anyio
import pytest
from anyio.lowlevel import checkpoint

from reconciler.core.model import Observation
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Call, Read, Step
from reconciler.core.wire import many
from reconciler.execution.send_gate import CallNotSent, SendGate
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.machines.wire.volume import Snapshot
from reconciler.services.outcome import Outcome, Verdict
from reconciler.services.provider import provider_client
from reconciler.services.registry import Budget, Services, observe
from tests.execution.far import ANSWER_S, Far, SharedTime, add_apps, applied, of_apps
from tests.execution.stage import SETTLE_S, Stage, cluster, outcomes, secret, volume

VOLUMES = "/v1/apps/shop/volumes"


class Waits(Reporter):
    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []
        self.notes: list[str] = []
        self.lines: list[tuple[str, int, int, float]] = []

    def note(self, message: str) -> None:
        self.notes.append(message)

    def waiting_for_limit(self, action: str, left: int, total: int, waited_s: float) -> None:
        self.lines.append((action, left, total, waited_s))

    def asked_to_wait(self, step: Step, wait_s: float) -> None:
        self.asked.append((step.id, wait_s))


# --- turns ---


async def test_creates_of_many_apps_go_out_as_fast_as_the_limits_of_each_allow(shared: Stage) -> None:
    """Three at once, then one a second for each app: the tenth is due after 7 s, whatever the others do."""
    add_apps(shared, 8)
    far = Far(shared)
    found = await applied(shared, of_apps(8, 10))
    assert Counter(outcomes(found).values()) == {"done": 80}
    first, last = min(far.times("POST")), max(far.times("POST"))
    assert last - first <= 7 * 1.15
    for app in range(8):
        moments = far.times("POST", f"/v1/apps/app{app}/")
        fourths = zip(moments, moments[3:], strict=False)
        assert all(fourth - first >= 1 - 1e-6 for first, fourth in fourths)


async def test_what_the_limits_cost_is_said_before_and_who_waits_meanwhile(shared: Stage) -> None:
    add_apps(shared, 2)
    Far(shared)
    shared.reporter = told = Waits()
    found = await applied(shared, of_apps(1, 10) + volume().replace("app: shop", "app: app1"))
    assert told.notes == ["11 requests; the platform's limits allow them in about 7 s"]
    assert (found.budget.requests, found.budget.limited_s) == (2 + 2 + 11, 7)
    assert {action for action, *_ in told.lines} == {"POST apps/app0/volumes"}
    assert [(left, total) for _, left, total, _ in told.lines] == [(left, 10) for left in range(7, -1, -1)]
    waited = [waited_s for *_, waited_s in told.lines]
    assert waited[0] == 0
    assert waited == sorted(waited)


async def test_of_several_lines_the_longest_one_is_told(shared: Stage) -> None:
    add_apps(shared, 2)
    Far(shared)
    shared.reporter = told = Waits()
    await applied(shared, of_apps(2, 4) + of_apps(1, 12).replace("name: data", "name: more"))
    first = next(left for action, left, *_ in told.lines if action.endswith("app0/volumes"))
    assert first == 16 - 3
    assert told.lines[-1][:2] == ("POST apps/app0/volumes", 0)
    assert sum(left == 0 for _, left, *_ in told.lines) == 1


async def test_calls_that_were_long_on_their_way_make_no_later_one_come_too_early(shared: Stage) -> None:
    """The platform counts when a call arrives: the fourth may come a second after the first ones came."""
    add_apps(shared, 1)
    shared.switch(rate_limit="on")
    far = Far(shared)
    far.slow_s = {"POST": 0.7}
    found = await applied(shared, of_apps(1, 10))
    assert Counter(outcomes(found).values()) == {"done": 10}
    assert far.too_many == 0
    posts = far.times("POST")
    assert posts[-1] - posts[0] <= 7 + 0.7 + 2 * ANSWER_S


async def test_reads_of_many_apps_go_out_as_fast_as_the_limits_of_each_allow(shared: Stage) -> None:
    add_apps(shared, 20)
    far = Far(shared)
    assert shared.platform is not None
    reads = [
        Read(f"/v1/apps/app{app}/volumes/vol_{number}/snapshots", many(Snapshot))
        for app in range(20)
        for number in range(10)
    ]
    answers: list[Observation] = []
    assert isinstance(shared.time, SharedTime)
    async with anyio.create_task_group() as group:
        group.start_soon(shared.time.run)
        await observe(
            Services({"platform": shared.platform}),
            reads,
            lambda read, answer: answers.append(answer),
            clock=shared.time,
            reporter=Reporter(),
            at_once=16,
            budget=Budget(),
        )
        group.cancel_scope.cancel()
    assert len(answers) == 200
    assert max(far.times("GET")) <= 7 * 1.15


@pytest.mark.parametrize("at_once", [1, 5, 20])
async def test_reads_go_out_as_many_at_a_time_as_the_settings_say(shared: Stage, at_once: int) -> None:
    add_apps(shared, 20)
    far = Far(shared, rate_limit=None)
    shared.limit(read_concurrency=at_once)
    await applied(shared, of_apps(20, 1), approve=lambda plan: False)
    waves = Counter(far.times("GET"))
    assert max(waves.values()) == at_once


async def test_a_slow_app_does_not_hold_up_another_one(shared: Stage) -> None:
    """Twenty creates stand in one app's line for 17 s; the only one of the other app goes at once."""
    add_apps(shared, 2)
    far = Far(shared)
    shared.limit(concurrency=2)
    await applied(shared, of_apps(1, 20) + volume().replace("app: shop", "app: app1"))
    assert far.times("POST", "/v1/apps/app1/")[0] - min(far.times("POST")) <= 2


# --- 429 ---


async def test_a_call_refused_with_429_is_sent_again_when_the_platform_says_so(shared: Stage) -> None:
    far = Far(shared, rate_limit=None)
    far.refused = 2
    shared.reporter = waits = Waits()
    found = await applied(shared, volume())
    assert outcomes(found) == {"Volume/shop/data#create": "done"}
    first, second, third = far.times("POST")
    assert [second - first, third - second] == pytest.approx([2.2, 2.2])
    assert waits.asked == [("Volume/shop/data#create", 2.0)] * 2
    assert await shared.open_steps() == []
    assert found.notices == ()


async def test_after_a_minute_of_429_the_step_fails_and_others_like_it_are_not_sent(
    shared: Stage,
) -> None:
    far = Far(shared, rate_limit=None)
    far.refused = 10_000
    found = await applied(shared, "".join(volume(f"data{number}") for number in range(20)))
    assert set(outcomes(found).values()) == {"failed", "skipped"}
    told = re.compile(r"refused with 429 for (59|6[0-2]) s, and the service asks to wait 2 s more")
    assert any(told.search(result.error) for result in found.results)
    assert max(far.times("POST")) - min(far.times("POST")) <= 60 + 2
    assert [item.code for item in found.notices] == ["rate-limited"]
    assert await shared.open_steps() == []


async def test_a_platform_that_cannot_be_read_after_a_lost_create_asks_nobody(shared: Stage) -> None:
    far = Far(shared, rate_limit=None)
    far.lost, far.down_after_a_loss = 1, 503
    found = await applied(shared, volume())
    (result,) = found.results
    assert (result.outcome, found.notices) == ("pending", ())
    assert "could not be read" in result.error
    assert await shared.open_steps() == ["Volume/shop/data#create"]
    far.down = 0
    assert outcomes(await applied(shared, volume())) == {"Volume/shop/data#create": "done"}
    assert len(shared.volumes()) == 1


async def test_without_a_word_from_the_platform_each_pause_is_twice_as_long(shared: Stage) -> None:
    far = Far(shared, rate_limit=None)
    far.refused, far.refusal = 4, {}
    await applied(shared, volume())
    moments = far.times("POST")
    pauses = [later - earlier - ANSWER_S for earlier, later in pairwise(moments)]
    assert pauses == pytest.approx([1, 2, 4, 8])


async def test_a_platform_that_never_says_how_long_is_given_up_within_the_minute(shared: Stage) -> None:
    far = Far(shared, rate_limit=None)
    far.refused, far.refusal = 10_000, {}
    found = await applied(shared, volume())
    (notice,) = found.notices
    assert "refused with 429 for 32 s; a step waits at most 60 s: 0 of 1" in notice.message
    assert notice.help.startswith("wait until the service accepts calls again, then run")


async def test_a_platform_that_asks_for_more_than_a_minute_is_not_waited_for(shared: Stage) -> None:
    far = Far(shared, rate_limit=None)
    far.refused, far.refusal = 1, {"retry-after": "3600"}
    found = await applied(shared, volume())
    (result,) = found.results
    assert result.outcome == "failed"
    why = "refused with 429, and the service asks to wait 3600 s; a step waits at most 60 s"
    assert f"; rate-limited: {why}; run again later" in result.error
    (notice,) = found.notices
    assert notice.message == f"calls were {why}: 0 of 1 steps are done"
    assert notice.help.startswith("wait 3600 s, then run `reconcile apply` again")
    assert len(far.times("POST")) == 1


async def test_where_the_platform_counts_and_we_do_not_all_calls_get_through(shared: Stage) -> None:
    """As on loopback: the first answers 429 teach the pace, and the line of that app keeps it."""
    shared.switch(rate_limit="on")
    Far(shared, rate_limit=None)
    found = await applied(shared, "".join(volume(f"data{number}") for number in range(30)))
    assert Counter(outcomes(found).values()) == {"done": 30}
    assert len(shared.volumes()) == 30


# --- 401 ---


async def test_after_a_refused_token_no_call_starts_and_one_message_says_so(shared: Stage) -> None:
    shared.limit(concurrency=2)
    far = Far(shared, rate_limit=None)
    shared.fault(method="POST", path="*", action="status", status=401, times=None)
    found = await applied(shared, "".join(volume(f"data{number}") for number in range(20)))
    assert Counter(outcomes(found).values()) == {"failed": 2, "skipped": 18}
    assert len(far.times("POST")) == 2
    (notice,) = found.notices
    assert (notice.code, "0 of 20 steps" in notice.message) == ("token-refused", True)
    assert "platform.token_from" in notice.help


async def test_a_403_names_the_scope_and_stops_nothing_else(shared: Stage) -> None:
    Far(shared, rate_limit=None)
    shared.fault(method="POST", path="*", action="status", status=403)
    found = await applied(shared, volume() + volume("more"))
    assert sorted(outcomes(found).values()) == ["done", "failed"]
    failed = next(result for result in found.results if result.outcome == "failed")
    assert "may change `shop`" in failed.error


# --- lost answers ---


async def test_after_three_lost_creates_in_a_row_no_other_one_is_sent(shared: Stage) -> None:
    far = Far(shared, rate_limit=None)
    far.lost = 10_000
    found = await applied(shared, "".join(cluster(name=f"orders{n}") for n in range(6)))
    assert Counter(outcomes(found).values()) == {"unknown": 3, "skipped": 3}
    assert len(far.times("POST")) == len(found.notices) == 3


async def test_what_is_not_sent_says_how_many_creates_are_unknown_whatever_else_is(shared: Stage) -> None:
    far = Far(shared, rate_limit=None)
    far.lost = 10_000
    secrets = "".join(secret(f"S{n}") for n in range(4))
    found = await applied(shared, secrets + "".join(cluster(name=f"orders{n}") for n in range(6)))
    skipped = {result.error for result in found.results if result.outcome == "skipped"}
    (told,) = skipped
    assert told.startswith("not sent: the outcomes of 3 creates are unknown, so nothing new is created")


async def test_calls_that_create_nothing_stop_creates_too_and_are_counted_as_calls(shared: Stage) -> None:
    Far(shared, rate_limit=None)
    assert shared.platform is not None
    gate = SendGate(8, shared.time)
    for _ in range(3):
        gate.answered(shared.platform, Outcome(Verdict.UNKNOWN))
    with pytest.raises(CallNotSent, match="the outcomes of the last 3 calls are unknown, so nothing new is"):
        async with gate.turn(
            shared.platform,
            Call("POST", "/v1/postgres"),
            creates=True,
            again=False,
            prepare=checkpoint,
            tell=lambda left_s: None,
        ):
            raise AssertionError("it was sent")


async def test_a_create_that_is_answered_opens_the_way_for_the_others(shared: Stage) -> None:
    far = Far(shared, rate_limit=None)
    far.lost = 2
    found = await applied(shared, "".join(cluster(name=f"orders{n}") for n in range(12)))
    assert Counter(outcomes(found).values()) == {"unknown": 2, "done": 10}


async def test_lost_creates_wait_for_their_evidence_without_a_slot_and_share_its_lists(shared: Stage) -> None:
    """One slot: what waits for the end of the settle window does not keep the others from being sent."""
    add_apps(shared, 1)
    far = Far(shared, rate_limit=None)
    far.lost = 2
    shared.limit(concurrency=1)
    found = await applied(shared, "".join(volume(f"data{number}") for number in range(10)))
    assert Counter(outcomes(found).values()) == {"done": 10}
    posts = far.times("POST")
    assert len(posts) == 12
    assert posts[9] - posts[0] < SETTLE_S / 2
    lists = [at_s for at_s in far.times("GET") if at_s > posts[9]]
    assert len([1 for _, path, at_s in far.sent if path == VOLUMES and at_s in lists]) <= 5 + 2


async def test_calls_that_a_killed_run_left_are_settled_side_by_side(shared: Stage) -> None:
    far = Far(shared, rate_limit=None)
    far.lost = 3
    shared.limit(adopt_inferred=False)
    manifests = "".join(volume(f"data{number}") for number in range(3))
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            assert isinstance(shared.time, SharedTime)
            group.start_soon(shared.time.run)
            group.start_soon(cancel_when, scope, lambda: len(far.times("POST")) == 3 and not far.lost)
            await shared.apply(manifests)
    assert len(await shared.open_steps()) == 3
    far.sent.clear()
    began_s = shared.time.elapsed_s
    assert Counter(outcomes(await applied(shared, manifests)).values()) == {"done": 3}
    assert far.times("POST")[0] - began_s <= SETTLE_S + 4 * 5
    first = far.times("POST")[0]
    assert len([1 for _, path, at_s in far.sent if path == VOLUMES and at_s < first]) <= 3 + 3


async def cancel_when(scope: anyio.CancelScope, holds: Callable[[], bool]) -> None:
    while not holds():
        await anyio.sleep(0.001)
    scope.cancel()


async def test_a_provider_that_refuses_its_signature_stops_nobody_else(shared: Stage) -> None:
    client = provider_client(
        "acme",
        shared.line,
        "https://acme.example",
        lambda: Sensitive("s"),
        shared.time,
        new_nonce=lambda: "n",
    )
    gate = SendGate(1, shared.time)
    gate.answered(client, Outcome(Verdict.NO, status=401))
    assert gate.halted == ""
    assert not gate.notices(0, 1)

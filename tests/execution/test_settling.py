"""What became of a create whose answer was lost, decided from evidence and never by sending blindly."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.model import Address
from reconciler.core.steps import PLATFORM
from reconciler.execution.open_intents import parse_intent
from reconciler.execution.settling import left_of_window, look
from reconciler.project.apply import PlanRefused
from reconciler.project.resolve import resolve_unknown
from reconciler.project.run import run_plan
from reconciler.services.registry import Services
from reconciler.services.transport import Answer
from reconciler.state.runs import history_of
from tests.execution.stage import SETTLE_S, START, Stage, cluster, left_open, outcomes, plan, volume
from tests.state.doubles import made, spooling

VOLUMES = "/v1/apps/shop/volumes"
CREATE = "Volume/shop/data#create"


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "drop_after"},
        {"action": "truncate"},
        {"action": "status", "status": 408, "after": True},
        {"action": "status", "status": 503, "after": True},
        {"action": "status", "status": 200, "after": True, "body": {}},
        {"action": "status", "status": 307, "after": True, "headers": {"location": VOLUMES}},
        {"action": "html", "status": 422, "after": True},
    ],
    ids=["dropped", "truncated", "408", "503", "no-id", "redirect", "html"],
)
async def test_one_new_volume_is_taken_as_the_lost_one(stage: Stage, fault: dict[str, object]) -> None:
    stage.fault(method="POST", path=VOLUMES, **fault)
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "done"}
    assert stage.line.mutations == ["POST"]
    record = await stage.record()
    assert (record.id, record.inferred) == (stage.volumes()[0]["id"], True)


async def test_nothing_is_concluded_before_the_settle_window_has_passed(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    stage.time.at(SETTLE_S * 0.9, stage.make_volume)  # the request was only slow
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "done"}
    assert stage.line.mutations == ["POST"]
    assert len(stage.volumes()) == 1


async def test_without_a_settle_window_the_lists_are_read_at_once(stage: Stage) -> None:
    stage.limit(settle_s=0)
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    assert outcomes(await stage.apply(volume())) == {CREATE: "done"}
    assert stage.line.mutations == ["POST"]
    assert (await stage.record()).inferred


async def test_an_object_that_another_call_took_during_the_look_is_not_taken_twice(
    stage: Stage,
) -> None:
    await left_open(stage, volume(), "POST")
    (opened,) = (await stage.store.load()).open_intents
    services = Services({PLATFORM: stage.project().platform})
    tracked = iter([set(), {stage.volumes()[0]["id"]}])
    found = await look(parse_intent(opened), services.read, services, lambda: next(tracked), stage.limits)
    assert (found.kind, next(tracked, None)) == ("not_landed", None)


@pytest.mark.parametrize("action", ["drop_after", "drop_before"])
async def test_its_equal_that_the_same_run_made_before_is_not_the_lost_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """Both are new since the list that the run began with; a record holds the first one."""
    request = stage.line.request

    async def watched(method: str, url: str, **rest: Any) -> Answer:
        if method == "POST" and stage.line.mutations == ["POST"]:
            stage.fault(method="POST", path=VOLUMES, action=action)
        return await request(method, url, **rest)

    monkeypatch.setattr(stage.line, "request", watched)
    applied = await stage.apply(volume(spec="region: ams, size_gb: 10, count: 2"))
    assert set(outcomes(applied).values()) == {"done"}
    taken = {(await stage.record(address)).id for address in ("Volume/shop/data", "Volume/shop/data[1]")}
    assert taken == {each["id"] for each in stage.volumes()}
    assert len(taken) == 2


async def test_one_that_shows_up_between_the_lists_is_still_taken(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    stage.time.at(SETTLE_S + 7, stage.make_volume)
    await stage.apply(volume())
    assert stage.line.mutations == ["POST"]


async def test_without_a_trace_in_three_lists_it_is_sent_once_more(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "done"}
    first, second = (at for at, (method, _) in enumerate(stage.line.sent) if method == "POST")
    # Three lists to settle, and one more that is the second attempt's baseline.
    assert [method for method, _ in stage.line.sent[first + 1 : second]] == ["GET"] * 4
    assert len(stage.volumes()) == 1
    assert not (await stage.record()).inferred


async def test_lost_twice_it_is_left_to_another_run(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_before", times=2)
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "failed"}
    assert stage.line.mutations == ["POST", "POST"]
    assert await stage.open_steps() == []
    assert outcomes(await stage.apply(volume())) == {CREATE: "done"}
    assert len(stage.volumes()) == 1


async def test_with_inferring_switched_off_a_person_is_asked(stage: Stage) -> None:
    stage.limit(adopt_inferred=False)
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "unknown"}
    (question,) = applied.notices
    assert stage.volumes()[0]["id"] in question.message
    assert "--not-created" in question.help
    assert await stage.open_steps() == [CREATE]
    with pytest.raises(PlanRefused):
        await stage.apply(volume())
    assert stage.line.mutations == ["POST"]


async def test_without_inferring_a_lost_create_that_left_no_trace_is_still_sent_again(stage: Stage) -> None:
    stage.limit(adopt_inferred=False)
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    assert outcomes(await stage.apply(volume())) == {CREATE: "done"}
    assert len(stage.volumes()) == 1


async def warned(stage: Stage) -> list[str]:
    return [item.code for item in (await stage.apply(volume())).plan.diagnostics]


async def test_two_later_looks_that_agree_confirm_an_inferred_id(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    first = await stage.apply(volume())
    assert [item.code for item in first.notices] == ["inferred-id"]
    for _ in range(2):
        assert (await stage.record()).inferred
        await plan(stage, volume())  # which writes nothing
        assert await warned(stage) == ["inferred-id"]
    assert not (await stage.record()).inferred
    version = (await stage.store.load()).version
    assert await warned(stage) == []
    assert (await stage.store.load()).version == version
    (*_, run) = history_of(await stage.store.journal()).runs
    assert run.addresses("confirmed") == ["Volume/shop/data"]


@pytest.mark.parametrize("other", ["size_gb", "state", "a twin"])
async def test_a_look_that_shows_anything_else_confirms_nothing(stage: Stage, other: str) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    await stage.apply(volume())
    await stage.apply(volume())
    if other == "a twin":
        stage.make_volume()
    else:
        value = {"size_gb": 12, "state": "failed"}[other]
        stage.call("PATCH", f"/_sandbox/world/volumes/{(await stage.record()).id}", {other: value})
    await stage.apply(volume(spec="region: ams, size_gb: {min: 10, max: 20}"))
    assert (await stage.record()).inferred
    await stage.apply(volume(spec="region: ams, size_gb: {min: 10, max: 20}"))
    assert (await stage.record()).inferred is (other != "size_gb")  # two that agree on the new size


async def test_a_twin_of_another_object_does_not_put_off_a_confirmation(stage: Stage) -> None:
    both = volume() + volume("logs")
    await stage.apply(volume("logs"))
    stage.make_volume(name="logs")
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    for _ in range(3):
        await stage.apply(both)
    assert not (await stage.record()).inferred


async def test_an_inferred_id_is_flagged_until_a_person_confirms_it(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    await stage.apply(volume())
    id = (await stage.record()).id
    await resolve_unknown(stage.project(), Address.parse("Volume/shop/data"), adopt=id)
    assert (await stage.apply(volume())).plan.diagnostics == ()
    assert not (await stage.record()).inferred


async def test_an_inferred_id_is_protected_from_deletion(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    await stage.apply(volume(rest="lifecycle: {deletion: delete, snapshot_before: []}\n"))
    with pytest.raises(PlanRefused) as refused:
        await stage.apply("", approved_deletes=["Volume/shop/data"])
    assert [item.code for item in refused.value.diagnostics] == ["delete-inferred"]
    assert stage.line.mutations == ["POST"]


async def test_two_candidates_are_a_question_and_nothing_is_sent(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    stage.time.at(1, stage.make_volume)
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "unknown"}
    (question,) = applied.notices
    assert all(item["id"] in question.message for item in stage.volumes())
    assert stage.line.mutations == ["POST"]
    assert await stage.open_steps() == [CREATE]


async def test_a_volume_that_a_machine_holds_by_now_is_a_question(stage: Stage) -> None:
    """It may be the lost one, which somebody found and attached: neither taken nor made a second time."""
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    stage.time.at(1, stage.hold)
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "unknown"}
    assert stage.volumes()[0]["id"] in applied.notices[0].message
    assert stage.line.mutations == ["POST"]


async def test_a_smaller_volume_is_not_the_lost_one(stage: Stage) -> None:
    """Volumes never shrink. It is not taken; and since the lost one may come yet, none is made, either."""
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    stage.time.at(1, lambda: stage.make_volume(size_gb=5))
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "unknown"}
    assert stage.line.mutations == ["POST"]


async def test_a_volume_listed_before_the_call_is_not_taken(stage: Stage) -> None:
    stage.make_volume()
    both = volume(spec="region: ams, size_gb: 10, count: 2")
    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    await stage.apply(both)
    taken = {(await stage.record(address)).id for address in ("Volume/shop/data", "Volume/shop/data[1]")}
    assert taken == {item["id"] for item in stage.volumes()}
    assert stage.line.mutations == ["POST"]


async def test_a_late_volume_stops_the_second_attempt(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    request = stage.line.request
    twins: list[str] = []

    async def watched(method: str, url: str, **rest: Any) -> Answer:
        sent = [each for each, _ in stage.line.sent]
        # The lists that settle the first attempt are over; this one is the second attempt's baseline.
        if not twins and sent.count("POST") == 1 and sent[sent.index("POST") :].count("GET") == 3:
            twins.append(stage.make_volume())
        return await request(method, url, **rest)

    monkeypatch.setattr(stage.line, "request", watched)
    applied = await stage.apply(volume())
    assert stage.line.mutations == ["POST"]
    assert outcomes(applied) == {CREATE: "failed"}
    assert (await stage.store.load()).records == {}
    assert [item["id"] for item in stage.volumes()] == twins
    assert outcomes(await stage.apply(volume())) == {"Volume/shop/data#adopt": "done"}


async def test_creates_that_a_list_cannot_tell_apart_run_one_after_another(stage: Stage) -> None:
    applied = await stage.apply(volume(spec="region: ams, size_gb: 10, count: 3"))
    first, second, third = applied.plan.steps
    assert (second.after, third.after) == ((first.id,), (second.id,))
    assert stage.line.most_under_way == 1
    assert len(stage.volumes()) == 3


async def test_other_creates_run_side_by_side_up_to_the_limit(stage: Stage) -> None:
    stage.limit(concurrency=3)
    stage.line.together = 3
    await stage.apply("".join(volume(f"data{number}") for number in range(9)))
    assert stage.line.most_under_way == 3
    assert len(stage.volumes()) == 9


async def test_an_unreadable_list_decides_nothing(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    stage.time.at(1, lambda: stage.fault(method="GET", path=VOLUMES, action="status", status=403))
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "unknown"}
    assert stage.line.mutations == ["POST"]


async def test_a_list_that_lags_behind_does_not_give_a_held_volume_away(stage: Stage) -> None:
    """The list shows it as free; the volume itself shows the machine that took it meanwhile."""

    def attached() -> None:
        stage.fault(method="GET", path=VOLUMES, action="stale_list", times=None)
        stage.hold()

    stage.fault(method="POST", path=VOLUMES, action="drop_after")
    stage.time.at(SETTLE_S / 2, attached)
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "unknown"}
    assert stage.volumes()[0]["id"] in applied.notices[0].message
    assert (await stage.store.load()).records == {}


async def test_what_only_a_list_shows_is_a_question(stage: Stage) -> None:
    stage.capabilities = frozenset({"postgres.list"})
    stage.fault(method="POST", path="/v1/postgres", action="drop_after")
    stage.time.at(
        SETTLE_S / 2, lambda: stage.fault(method="GET", path="/v1/postgres/*", action="status", status=404)
    )
    assert outcomes(await stage.apply(cluster())) == {"PostgresCluster/orders#create": "unknown"}


async def test_a_plan_looks_at_the_volume_itself_too(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    stage.fault(method="GET", path=VOLUMES, action="stale_list", times=None)
    stage.hold()
    await stage.time.sleep(SETTLE_S)
    found = await plan(stage, volume())
    assert [item.code for item in found.diagnostics] == ["unknown-outcome"]
    assert stage.volumes()[0]["id"] in found.diagnostics[0].message


async def test_an_equal_object_without_a_record_stops_the_create_whatever_is_planned(
    stage: Stage,
) -> None:
    reviewed = await plan(stage, volume())
    id = stage.make_volume()
    applied = await run_plan(stage.project(), replace(reviewed, expectations=()), approved_deletes=())
    (result,) = applied.results
    assert (result.outcome, id in result.error) == ("failed", True)
    assert stage.line.mutations == []
    assert outcomes(await stage.apply(volume())) == {"Volume/shop/data#adopt": "done"}


async def test_three_checkouts_with_new_states_make_one_cluster(stage: Stage) -> None:
    stage.capabilities = frozenset({"postgres.list"})
    for _ in range(3):
        stage.store = spooling(made(stage.time), stage.time, stage.root)
        await stage.apply(cluster())
    assert stage.line.mutations == ["POST"]


# --- clocks that jump ---


def jump_by_an_hour(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our wall clock, once a call was sent; neither the platform's nor the time that passes."""

    def now() -> datetime:
        return START + timedelta(seconds=stage.time.elapsed_s + (3600 if stage.line.mutations else 0))

    monkeypatch.setattr(stage.time, "now", now)


async def test_a_jump_of_our_clock_while_a_call_is_open_shortens_no_window(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    jump_by_an_hour(stage, monkeypatch)
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    stage.time.at(SETTLE_S * 0.9, stage.make_volume)  # the request was only slow
    assert outcomes(await stage.apply(volume())) == {CREATE: "done"}
    assert stage.line.mutations == ["POST"]
    assert len(stage.volumes()) == 1


async def test_a_jump_between_runs_shortens_no_window(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    jump_by_an_hour(stage, monkeypatch)
    await left_open(stage, volume(), "POST")
    began_s = stage.time.elapsed_s
    (question,) = (await plan(stage, volume())).diagnostics
    assert "its effect may still appear; the next apply waits for it" in question.message
    await stage.apply(volume())
    assert began_s + SETTLE_S - 2 <= stage.time.elapsed_s <= began_s + SETTLE_S + 20
    assert stage.line.mutations == ["POST"]
    assert (await stage.record()).inferred


async def test_an_intent_of_an_earlier_version_is_settled_by_our_clock(stage: Stage) -> None:
    await left_open(stage, volume(), "POST")
    (opened,) = (await stage.store.load()).open_intents
    assert opened.data["service_at"] == START.isoformat()
    old = {name: value for name, value in opened.data.items() if name != "service_at"}
    intent = parse_intent(replace(opened, data=old))
    services = stage.project().services
    assert intent.service_at is None
    await stage.time.sleep(SETTLE_S / 2)
    assert left_of_window(intent, opened.at, stage.time, services, SETTLE_S) == SETTLE_S / 2


async def test_the_settle_window_of_a_call_of_an_earlier_run_is_waited_out(stage: Stage) -> None:
    stage.fault(method="POST", path=VOLUMES, action="drop_before")
    await left_open(stage, volume(), "POST")
    sent_s = stage.time.elapsed_s
    stage.time.at(sent_s + SETTLE_S / 2, stage.make_volume)  # what the lost call makes, late
    assert (await stage.apply(volume())).results == ()
    assert stage.time.elapsed_s >= sent_s + SETTLE_S
    assert [each["id"] for each in stage.volumes()] == [(await stage.record()).id]

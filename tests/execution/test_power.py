"""Suspending and starting machines: waits in slices, refusals, lost answers, one suspend at a time."""

from typing import Any

import anyio
import pytest

import reconciler.execution.executor as executor_module
from reconciler.core.errors import Refused
from reconciler.core.wire import one
from reconciler.execution.executor import Executor
from reconciler.planning.declared import Desired
from reconciler.project.apply import run_saved
from reconciler.sandbox.exchange import Request, Response
from reconciler.sandbox.world import Machine
from reconciler.services.machines.wire.machine import MachineWaited
from reconciler.services.outcome import read_shape
from tests.execution.stage import Stage, outcomes, plan, volume

SUSPEND = "Machine/shop/worker#suspend"
STOP = "Machine/shop/worker#stop"
START = "Machine/shop/worker#start"
WAIT = "Machine/shop/worker#wait"
ADDRESS = "Machine/shop/worker"
GET = frozenset({"machine.get"})
STOPS = frozenset({"machine.stop"})


@pytest.fixture(params=[frozenset(), GET], ids=["unseen", "seen"])
def either(stage: Stage, request: pytest.FixtureRequest) -> Stage:
    """A stage on which machines cannot be seen, and one on which they can; both can stop them."""
    stage.capabilities = request.param | STOPS
    return stage


def machine(power: str, id: str = "m1", name: str = "worker", rest: str = "") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Machine\nmetadata: {{name: {name}, app: shop}}\n"
        f"spec: {{id: {id}, power: {power}}}\n{rest}"
    )


def make_machine(stage: Stage, id: str = "m1", **settings: Any) -> None:
    stage.call("POST", "/_sandbox/machines", {"app": "shop", "id": id, **settings})


def states(stage: Stage) -> dict[str, str]:
    return {each["id"]: each["state"] for each in stage.call("GET", "/_sandbox/world", {})["machines"]}


def sent(stage: Stage, verb: str) -> int:
    return sum(path.endswith(f"/{verb}") for _, path in stage.line.sent)


async def test_a_machine_is_suspended_waited_for_and_left_alone_by_the_next_run(either: Stage) -> None:
    make_machine(either)
    assert outcomes(await either.apply(machine("suspended"))) == {SUSPEND: "done"}
    assert states(either) == {"m1": "suspended"}
    assert sent(either, "wait") > 1  # the platform was asked again after a 408
    record = await either.record(ADDRESS)
    assert (record.id, record.applied["power"], record.inferred) == ("m1", "suspended", False)
    again = await either.apply(machine("suspended"))
    assert (again.plan.steps, again.plan.changes, again.results) == ((), (), ())
    assert either.line.mutations == ["POST"]


async def test_a_machine_is_stopped_waited_for_left_alone_and_started_again(either: Stage) -> None:
    make_machine(either)
    assert outcomes(await either.apply(machine("stopped"))) == {STOP: "done"}
    assert states(either) == {"m1": "stopped"}
    assert (await either.record(ADDRESS)).applied["power"] == "stopped"
    assert (await either.apply(machine("stopped"))).plan.steps == ()
    assert either.line.mutations == ["POST"]
    assert outcomes(await either.apply(machine("started"))) == {START: "done"}
    await either.time.sleep(5)
    assert states(either) == {"m1": "started"}


async def test_without_the_capability_nothing_is_stopped_and_the_line_is_named(stage: Stage) -> None:
    make_machine(stage)
    (problem,) = (await plan(stage, machine("stopped"))).diagnostics
    assert (problem.code, problem.severity) == ("capability-missing", "error")
    assert problem.span is not None
    with pytest.raises(Refused):
        await stage.apply(machine("stopped"))
    assert (states(stage), stage.line.mutations) == ({"m1": "started"}, [])


async def test_a_stop_that_takes_too_long_is_pending_and_the_next_run_only_waits(either: Stage) -> None:
    make_machine(either)
    soon = machine("stopped", rest="lifecycle: {timeout_s: 1}\n")
    assert outcomes(await either.apply(soon)) == {STOP: "pending"}
    assert (await either.record(ADDRESS)).applied["power"] == "stopping"
    assert outcomes(await either.apply(machine("stopped"))) == {WAIT: "done"}
    assert (await either.record(ADDRESS)).applied["power"] == "stopped"
    assert (await either.apply(machine("stopped"))).plan.steps == ()
    assert either.line.mutations == ["POST"]


async def test_a_stop_of_a_suspended_machine_discards_its_memory(either: Stage) -> None:
    make_machine(either, state="suspended")
    assert outcomes(await either.apply(machine("stopped"))) == {STOP: "done"}
    (found,) = either.call("GET", "/_sandbox/world", {})["machines"]
    assert (found["state"], found["snapshot"]) == ("stopped", False)


@pytest.mark.parametrize("word", ["started", "running"])
async def test_a_start_warns_of_stale_connections_and_promises_no_memory(either: Stage, word: str) -> None:
    either.switch(started_word=word)
    make_machine(either, state="suspended")
    applied = await either.apply(machine("started"))
    (result,) = applied.results
    assert (result.step, result.outcome) == (START, "done")
    assert "connections" in result.note
    assert "It is not known whether its memory was kept" in result.note
    await either.time.sleep(5)
    assert states(either) == {"m1": word}
    assert (await either.apply(machine("started"))).plan.steps == ()


async def test_a_suspend_that_takes_too_long_is_pending_and_the_next_run_only_waits(stage: Stage) -> None:
    stage.switch(suspending_s=100)
    make_machine(stage)
    soon = machine("suspended", rest="lifecycle: {timeout_s: 20}\n")
    (result,) = (await stage.apply(soon)).results
    assert result.outcome == "pending"
    assert result.error.startswith("still not there (deadline_exceeded: ")
    assert "currently suspending" in result.error
    assert 15 < stage.time.elapsed_s <= 20
    assert (await stage.record(ADDRESS)).applied["power"] == "suspending"
    assert outcomes(await stage.apply(machine("suspended"))) == {WAIT: "done"}
    assert (await stage.record(ADDRESS)).applied["power"] == "suspended"
    assert (await stage.apply(machine("suspended"))).plan.steps == ()
    assert stage.line.mutations == ["POST"]


async def test_a_start_whose_wait_is_not_over_is_pending_and_the_next_run_only_waits(stage: Stage) -> None:
    make_machine(stage, state="suspended")
    soon = machine("started", rest="lifecycle: {timeout_s: 20}\n")
    stage.fault(method="GET", path="/v1/apps/shop/machines/m1/wait", action="status", status=408, times=100)
    assert outcomes(await stage.apply(soon)) == {START: "pending"}
    assert (await stage.record(ADDRESS)).applied["power"] == "starting"
    stage.call("DELETE", "/_sandbox/faults", None)
    assert outcomes(await stage.apply(soon)) == {WAIT: "done"}
    assert (await stage.apply(soon)).plan.steps == ()
    assert stage.line.mutations == ["POST"]


async def test_a_suspend_that_somebody_undid_is_made_again_after_one_vain_wait(stage: Stage) -> None:
    stage.switch(suspending_s=100)
    make_machine(stage)
    soon = machine("suspended", rest="lifecycle: {timeout_s: 20}\n")
    assert outcomes(await stage.apply(soon)) == {SUSPEND: "pending"}
    make_machine(stage, state="started")
    assert outcomes(await stage.apply(soon)) == {WAIT: "pending"}
    assert "power" not in (await stage.record(ADDRESS)).applied
    assert outcomes(await stage.apply(machine("suspended"))) == {SUSPEND: "done"}
    assert states(stage) == {"m1": "suspended"}


@pytest.mark.parametrize("body", [{}, {"ok": True}, {"ok": True, "state": "suspended"}])
async def test_a_wait_is_over_with_its_status_whatever_the_body_says(stage: Stage, body: Any) -> None:
    stage.switch(suspending_s=10_000)
    make_machine(stage)
    stage.fault(method="GET", path="*/wait", action="status", status=200, body=body)
    assert outcomes(await stage.apply(machine("suspended"))) == {SUSPEND: "done"}


async def test_a_wait_may_be_answered_without_a_body() -> None:
    (waited,) = read_shape(one(MachineWaited), b"")
    assert waited.reached


@pytest.mark.parametrize("words", ["rule", "plain"])
async def test_a_refusal_shows_the_words_of_the_platform_and_the_rules(stage: Stage, words: str) -> None:
    stage.switch(suspend_refusal=words)
    make_machine(stage, memory_mb=4096)
    (result,) = (await stage.apply(machine("suspended"))).results
    assert result.outcome == "failed"
    assert ("4096 MB" if words == "rule" else "cannot be suspended") in result.error
    assert "2 GB of memory" in result.note
    assert "2024-06-20 20:00 UTC" in result.note
    assert ADDRESS not in {str(address) for address in (await stage.store.load()).records}
    assert stage.line.mutations == ["POST"]


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"memory_mb": 4096}, "4096 MB of memory"),
        ({"swap_size_mb": 512}, "512 MB of swap"),
        ({"schedule": "daily"}, "a schedule (daily)"),
        ({"updated_at": "2024-06-20T19:59:59Z"}, "updated before 2024-06-20"),
    ],
)
async def test_a_rule_that_the_machine_breaks_is_named_before_any_call(
    stage: Stage, settings: dict[str, Any], rule: str
) -> None:
    stage.capabilities = GET
    make_machine(stage, **settings)
    (problem,) = (await plan(stage, machine("suspended"))).diagnostics
    assert problem.code == "machine-power"
    assert rule in problem.message
    assert problem.span is not None
    assert stage.line.mutations == []


async def test_a_machine_that_is_not_there_is_no_matter_of_rules(stage: Stage) -> None:
    (result,) = (await stage.apply(machine("suspended"))).results
    assert (result.outcome, result.note) == ("failed", "")
    assert "machine not found" in result.error


@pytest.mark.parametrize("power", ["suspended", "started"])
async def test_a_refusal_because_it_is_so_already_is_success(either: Stage, power: str) -> None:
    """The proxy may be faster than our call; and without machine.get, the call is sent in any case."""
    either.switch(suspend_repeated=412, start_repeated=412)
    make_machine(either, state="started" if power == "suspended" else "suspended")
    step = SUSPEND if power == "suspended" else START
    before = f"/v1/apps/shop/machines/m1/{'suspend' if power == 'suspended' else 'start'}"

    def faster(executor: Any) -> None:
        either.call("POST", before, {})
        either.sandbox.settle()

    assert outcomes(await either.apply(machine(power), on_executor=faster)) == {step: "done"}
    record = await either.record(ADDRESS)
    assert (record.applied["power"], record.inferred) == (power, False)
    assert (await either.apply(machine(power))).plan.steps == ()


@pytest.mark.parametrize("action", ["drop_before", "drop_after"])
@pytest.mark.parametrize(
    ("power", "repeated"),
    [("suspended", 200), ("suspended", 412), ("started", 200), ("started", 412), ("stopped", 200)],
)
async def test_a_lost_answer_is_asked_again(either: Stage, repeated: int, action: str, power: str) -> None:
    either.switch(suspend_repeated=repeated, start_repeated=repeated)
    make_machine(either, state="suspended" if power == "started" else "started")
    either.fault(method="POST", path="/v1/apps/shop/machines/m1/*", action=action)
    applied = await either.apply(machine(power))
    assert set(outcomes(applied).values()) == {"done"}
    assert either.line.mutations == ["POST", "POST"]
    await either.time.sleep(10)
    assert states(either) == {"m1": power}
    assert await either.open_steps() == []
    assert (await either.apply(machine(power))).plan.steps == ()


async def test_a_call_that_is_lost_twice_is_pending_and_made_again_by_the_next_run(stage: Stage) -> None:
    make_machine(stage)
    await stage.apply(machine("suspended"))
    stage.fault(method="POST", path="*/start", action="drop_before", times=2)
    assert outcomes(await stage.apply(machine("started"))) == {START: "pending"}
    assert (await stage.record(ADDRESS)).applied == {}
    assert outcomes(await stage.apply(machine("started"))) == {START: "done"}


async def test_suspends_run_one_after_another_and_one_that_fails_stops_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests = ""
    for number in range(1, 5):
        make_machine(stage, f"m{number}", **({"swap_size_mb": 1} if number == 2 else {}))
        manifests += machine("suspended", f"m{number}", f"worker{number}")
    under_way: list[int] = []
    handle = stage.sandbox.handle

    def watched(request: Request) -> Response:
        answer = handle(request)
        found = [each.state for each in stage.sandbox.world.all(Machine)]
        under_way.append(found.count("suspending"))
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(stage.sandbox, "handle", watched)
        applied = await stage.apply(manifests)
    assert list(outcomes(applied).values()) == ["done", "failed", "done", "done"]
    assert max(under_way) == 1
    assert states(stage) == {"m1": "suspended", "m2": "started", "m3": "suspended", "m4": "suspended"}


async def test_a_machine_that_the_proxy_started_is_suspended_again_where_it_can_be_seen(
    stage: Stage,
) -> None:
    make_machine(stage)
    await stage.apply(machine("suspended"))
    stage.call("POST", "/v1/apps/shop/machines/m1/start", {})
    await stage.time.sleep(5)
    assert (await stage.apply(machine("suspended"))).plan.steps == ()  # nothing shows it
    stage.capabilities = GET
    assert outcomes(await stage.apply(machine("suspended"))) == {SUSPEND: "done"}


async def test_stopping_ends_the_wait_for_a_suspend_as_pending(stage: Stage) -> None:
    stage.switch(suspending_s=1000)
    make_machine(stage)
    applied = await stage.apply(
        machine("suspended"), on_executor=lambda executor: stage.time.at(20, executor.stop)
    )
    assert outcomes(applied) == {SUSPEND: "pending"}


async def test_a_wait_beyond_the_grace_period_is_pending(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "GRACE_S", 0)
    make_machine(stage)
    executors: list[Executor] = []
    applied = []

    def silence(executor: Executor) -> None:
        executors.append(executor)
        stage.line.hangs.add("GET")

    async def run() -> None:
        applied.append(await stage.apply(machine("suspended"), silence))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await stage.line.reached.wait()
        executors[0].stop()
    assert outcomes(applied[0]) == {SUSPEND: "pending"}
    stage.line.hangs.clear()
    assert outcomes(await stage.apply(machine("suspended"))) == {WAIT: "done"}


async def test_a_saved_settlement_does_not_hide_what_became_owed_since(stage: Stage) -> None:
    await grown_under_a_machine(stage, "stopped")
    reviewed = await plan(stage, GROWN)
    assert reviewed.owed == ()
    make_machine(stage, state="started")
    await stage.apply(volume(spec="region: ams, size_gb: 30"))
    assert (await run_saved(stage.project(), Desired(()), reviewed, ())).results == ()
    assert (await stage.record()).obligations


AUTO = "lifecycle: {restart: auto}\n"
GROWN = volume(spec="region: ams, size_gb: 20", rest=AUTO)


async def grown_under_a_machine(stage: Stage, state: str = "started") -> None:
    """A volume that was extended under machine m1, which therefore owes a restart, and is now in `state`."""
    stage.capabilities = frozenset()
    await stage.apply(volume(rest=AUTO))
    make_machine(stage, volumes=[stage.volumes()[0]["id"]])
    await stage.apply(GROWN)
    assert (await stage.record()).obligations
    if state != "started":
        make_machine(stage, state=state)
    stage.capabilities = frozenset({"machine.get", "machine.restart", "machine.stop"})
    stage.line.sent.clear()


async def test_no_restart_for_a_machine_that_is_to_stay_suspended_and_it_stays_owed(stage: Stage) -> None:
    await grown_under_a_machine(stage)
    applied = await stage.apply(GROWN + machine("suspended"))
    assert outcomes(applied) == {SUSPEND: "done"}
    assert [(str(owed.address), owed.work) for owed in applied.owed] == [("Volume/shop/data", "restart")]
    again = await stage.apply(GROWN + machine("suspended"))
    assert (again.plan.steps, len(again.owed)) == ((), 1)


async def test_a_resume_is_followed_by_the_restart_that_it_does_not_replace(stage: Stage) -> None:
    await grown_under_a_machine(stage)
    await stage.apply(GROWN + machine("suspended"))
    assert len(stage.unused_space()) == 1
    resumed = await stage.apply(GROWN + machine("started"))
    assert outcomes(resumed) == {START: "done", "Volume/shop/data#restart": "done"}
    verbs = [path.rpartition("/")[2] for method, path in stage.line.sent if method == "POST"]
    assert verbs[-2:] == ["start", "restart"]
    assert (resumed.owed, stage.unused_space()) == ((), [])
    assert (await stage.apply(GROWN + machine("started"))).plan.steps == ()


async def test_a_stopped_machine_is_not_restarted_and_its_start_settles_what_is_owed(stage: Stage) -> None:
    await grown_under_a_machine(stage, "stopped")
    applied = await stage.apply(GROWN)
    assert (applied.plan.steps, applied.owed, applied.plan.owed) == ((), (), ())
    assert (await stage.record()).obligations == ()
    assert outcomes(await stage.apply(GROWN + machine("started"))) == {START: "done"}
    assert stage.unused_space() == []
    assert (await stage.apply(GROWN + machine("started"))).plan.steps == ()


@pytest.mark.parametrize("with_get", [True, False], ids=["seen", "unseen"])
async def test_a_machine_that_is_to_be_stopped_is_not_restarted_and_its_stop_settles_what_is_owed(
    stage: Stage, with_get: bool
) -> None:
    await grown_under_a_machine(stage)
    if not with_get:
        stage.capabilities -= GET
    stopping = await stage.apply(GROWN + machine("stopped"))
    assert outcomes(stopping) == {STOP: "done"}
    assert [path.rpartition("/")[2] for method, path in stage.line.sent if method == "POST"] == ["stop"]
    assert len(stopping.owed) == 1
    stage.capabilities |= GET
    after = await stage.apply(GROWN + machine("stopped"))
    assert (after.plan.steps, after.owed, (await stage.record()).obligations) == ((), (), ())
    assert outcomes(await stage.apply(GROWN + machine("started"))) == {START: "done"}
    assert stage.unused_space() == []


async def test_growing_and_settling_meet_in_one_run(stage: Stage) -> None:
    await grown_under_a_machine(stage, "stopped")
    larger = volume(spec="region: ams, size_gb: 30", rest=AUTO)
    await stage.apply(larger)
    owed = [each.because for each in (await stage.record()).obligations]
    assert owed == ["extended from 20 to 30 GB"]
    assert (await stage.apply(larger)).owed == ()

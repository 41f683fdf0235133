"""What a run must notice about itself: that it waited, that it stood still, that an outcome came too late."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.model import Address
from reconciler.core.steps import Plan
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project.apply import PlanRefused, apply
from reconciler.project.preconditions import Moved
from reconciler.services.transport import Answer
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.store import Event, JournalEntry, Lease
from tests.execution.stage import Notes, Stage, cluster, left_open, loaded, outcomes, plan, volume
from tests.state.doubles import known_as, spooling


async def applied_while_another_run_makes_it(stage: Stage) -> list[Plan]:
    """The plans that were shown; after the first one, somebody else makes the volume."""
    shown: list[Plan] = []

    def approve(plan: Plan) -> bool:
        shown.append(plan)
        if len(shown) == 1:
            stage.make_volume()
        return True

    await apply(stage.project(), Desired(loaded(stage, volume())), approve=approve)
    return shown


async def test_an_apply_that_waited_for_its_turn_plans_again(stage: Stage) -> None:
    stage.lock_timeout_s = 30
    first, second = await applied_while_another_run_makes_it(stage)
    assert ([step.call.method for step in first.steps], second.steps) == (["POST"], ())
    assert stage.line.mutations == []
    assert (await stage.record()).id == stage.volumes()[0]["id"]


async def test_who_waited_for_one_that_was_killed_settles_its_call_and_asks_nobody(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.lock_timeout_s = 30
    lease, killed = stage.store.lease, list[bool]()

    async def after_another(scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        if not killed:
            killed.append(True)
            await left_open(stage, volume(), "POST")
        return await lease(scopes, holder, timeout_s=timeout_s)

    monkeypatch.setattr(stage.store, "lease", after_another)
    await stage.apply(volume())
    assert [(await stage.record()).id] == [each["id"] for each in stage.volumes()]
    assert (await stage.store.load()).open_intents == ()
    assert stage.line.mutations == ["POST"]


async def test_an_apply_that_does_not_wait_is_refused_when_something_moved(stage: Stage) -> None:
    with pytest.raises(Moved):
        await applied_while_another_run_makes_it(stage)
    assert stage.line.mutations == []


async def test_what_nobody_is_asked_about_is_told_before_it_is_written(stage: Stage) -> None:
    await stage.apply(volume())
    told: list[Plan] = []

    def tell(plan: Plan) -> None:
        told.append(plan)
        raise RuntimeError("nobody listens")

    file = stage.root / "moved.yaml"
    file.write_text(
        volume("files") + "---\napiVersion: reconciler/v1\nkind: Moved\nmetadata: {name: m}\n"
        "spec: {from: Volume/shop/data, to: Volume/shop/files}\n"
    )
    found = load([str(file)], root=stage.root)
    desired = Desired(found.resources, policies=found.policies)
    with pytest.raises(RuntimeError, match="nobody listens"):
        await apply(stage.project(), desired, approve=lambda plan: True, tell=tell)
    assert [str(move.target) for move in told[0].moves] == ["Volume/shop/files"]
    assert (await stage.record()).address == Address.parse("Volume/shop/data")


@pytest.mark.parametrize("stood_still_s", [0, 600])
async def test_a_process_that_stood_still_during_its_call_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, stood_still_s: float
) -> None:
    notes = stage.reporter = Notes()
    request = stage.line.request

    async def slow(
        method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        if method == "POST":
            stage.time.elapsed_s += stood_still_s
        return await request(method, url, headers=headers, body=body, deadline_s=deadline_s)

    monkeypatch.setattr(stage.line, "request", slow)
    assert outcomes(await stage.apply(volume())) == {"Volume/shop/data#create": "done"}
    assert bool(notes.told) is bool(stood_still_s)
    assert all("was paused: 600 s" in note for note in notes.told)


@pytest.mark.parametrize("manifests", [cluster(), volume()], ids=["cluster", "volume"])
async def test_a_late_outcome_is_asked_about_before_it_is_made_again(stage: Stage, manifests: str) -> None:
    address = loaded(stage, manifests)[0].address
    await told_of(stage, address, {"unclaimed": "late_1", "because": "its outcome came late"})
    (question,) = (await plan(stage, manifests)).diagnostics
    assert (question.code, "late_1" in question.message) == ("unknown-outcome", True)
    with pytest.raises(PlanRefused):
        await stage.apply(manifests)
    assert stage.line.mutations == []
    await told_of(stage, address, {"claimed": "late_1"})
    await stage.apply(manifests)
    assert stage.line.mutations == ["POST"]


async def told_of(stage: Stage, address: Address, data: Mapping[str, Any]) -> None:
    lease = await stage.store.lease(["shop"], "the test")
    entry = JournalEntry("run", Event.DECIDED, stage.time.now(), address, data=data)
    await stage.store.commit(lease, [entry])
    await stage.store.release(lease)


# --- leases that end by themselves: a runner that stood still, and one that took over meanwhile ---

CREATE = "Volume/shop/data#create"
LEASE_S = 60


@pytest.fixture
def known(stage: Stage) -> MemoryState:
    """A state that the stage and others share. Each runner has a spool of its own."""
    known = known_as("lineage-1", bytes(32), stage.time, LEASE_S)
    stage.store = spooling(MemoryStore(known), stage.time, stage.root)
    return known


async def as_another_runner(stage: Stage, known: MemoryState, folder: Path, manifests: str) -> dict[str, str]:
    """Apply on the same platform and state, with nothing else in common."""
    folder.mkdir(exist_ok=True)
    store = spooling(MemoryStore(known), stage.time, folder)
    project = replace(stage.project(), store=store, holder="another runner")
    return outcomes(await apply(project, Desired(loaded(stage, manifests)), approve=lambda plan: True))


async def test_a_runner_that_stood_still_before_its_check_sends_nothing(
    stage: Stage, known: MemoryState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, stood_still = stage.store.check, list[bool]()

    async def slow(lease: object, for_s: float = 0) -> None:
        if not stood_still:
            stood_still.append(True)
            stage.time.elapsed_s += LEASE_S + 1
            assert await as_another_runner(stage, known, tmp_path / "b", volume()) == {CREATE: "done"}
        await check(lease, for_s)  # type: ignore[arg-type]

    monkeypatch.setattr(stage.store, "check", slow)
    applied = await stage.apply(volume())
    assert outcomes(applied) == {CREATE: "failed"}
    assert "no longer ours" in applied.results[0].error
    assert len(stage.volumes()) == 1
    assert stage.line.mutations == ["POST"]
    assert (await stage.record()).id == stage.volumes()[0]["id"]


async def test_a_call_that_is_sent_after_its_lease_has_ended_is_told_and_shown(
    stage: Stage, known: MemoryState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = stage.reporter = Notes()
    request, stood_still = stage.line.request, list[bool]()

    async def slow(
        method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        if method == "POST" and not stood_still:
            stood_still.append(True)
            stage.time.elapsed_s += 600  # between its check and its call
            assert await as_another_runner(stage, known, tmp_path / "b", volume()) == {CREATE: "done"}
        return await request(method, url, headers=headers, body=body, deadline_s=deadline_s)

    monkeypatch.setattr(stage.line, "request", slow)
    applied = await stage.apply(volume())
    (recorded,) = (await MemoryStore(known).load()).records.values()
    (late,) = {each["id"] for each in stage.volumes()} - {recorded.id}
    assert outcomes(applied) == {CREATE: "failed"}
    assert late in applied.results[0].error
    assert "no longer ours" in applied.results[0].error
    assert len(stage.volumes()) == 2  # nobody can take back what is under way
    assert any("was paused" in note for note in notes.told)
    # On a runner that has never seen the first one's spool:
    stage.store = spooling(MemoryStore(known), stage.time, tmp_path / "b")
    (twin,) = (await plan(stage, volume())).diagnostics
    assert (twin.code, late in twin.message) == ("lookalike", True)

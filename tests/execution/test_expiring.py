"""Leases that end by themselves: a runner that stood still, and the one that took over meanwhile."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.planning.declared import Desired
from reconciler.project.apply import apply
from reconciler.services.transport import Answer
from reconciler.state.places.memory import MemoryState, MemoryStore
from tests.execution.stage import Stage, loaded, outcomes, plan, volume
from tests.execution.test_doubts import Notes
from tests.state.doubles import known_as, spooling

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

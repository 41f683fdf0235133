"""A store that does not keep its word gets no state."""

import pytest

from reconciler.core.errors import StoreError
from reconciler.execution.decisions import Actor
from reconciler.project.copies import Side, migrate
from reconciler.project.identity import create_state
from reconciler.state.log.store import LogStore
from tests.state.doubles import made
from tests.state.objects.doubles import Mixing, memory_bucket
from tests.state.worlds import SimulatedClock


@pytest.fixture
def lying(clock: SimulatedClock) -> LogStore:
    return LogStore(Mixing(memory_bucket()), clock)


async def test_a_state_is_not_made_in_a_store_that_lies(lying: LogStore, clock: SimulatedClock) -> None:
    with pytest.raises(StoreError, match="a state cannot be kept in"):
        await create_state(lying, Actor(clock, "me"))
    assert (await lying.load()).lineage == ""


async def test_nor_is_one_moved_there(lying: LogStore, clock: SimulatedClock) -> None:
    here = made(clock)
    with pytest.raises(StoreError, match="a state cannot be kept in"):
        await migrate(Side(here, "sqlite:here.db"), Side(lying, "s3://b/p"), "me", timeout_s=0)
    await here.lease(["shop"], "me")
    assert (await lying.load()).lineage == ""


async def test_a_store_that_keeps_its_word_is_proven_and_a_file_needs_no_proof(clock: SimulatedClock) -> None:
    assert await LogStore(memory_bucket(), clock).probe()
    assert not await made(clock).probe()

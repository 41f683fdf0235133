"""Samples of `store_faults`, and that its checks find what they are there for."""

from pathlib import Path

import anyio
import pytest

from reconciler.state import spool_file
from reconciler.state.log import damage
from reconciler.state.places.sqlite import bucket, whole
from tests.reliability import object_faults
from tests.reliability.proof import Tally
from tests.reliability.store_faults import run, run_with_budget
from tests.state.objects.doubles import memory_bucket


def test_no_acknowledged_outcome_is_lost_and_no_flipped_bit_goes_unseen() -> None:
    tally = run(torn_count=120, full_count=24, flip_count=40, seed=7)
    assert tally.violations == []
    assert tally.counts["full: spooled"] > 0
    assert len([what for what in tally.counts if what.startswith("flips: ")]) == 6


@pytest.mark.parametrize("room", [100, 5_000, 13_000, 20_000])
def test_a_disk_that_is_full_while_a_state_is_made_is_told(room: int, tmp_path: Path) -> None:
    assert run_with_budget(tmp_path / "state.db", room) == ["exit 0"]


def test_a_store_that_keeps_nothing_aside_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_file, "keep", lambda place, kept, seal: place)
    assert any("lost" in violation for violation in run(60, 0, 0, seed=7).violations)


def test_a_store_that_skips_its_tags_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "verify", lambda connection: None)
    monkeypatch.setattr(bucket, "tag_of", lambda body: "the same")
    monkeypatch.setattr(bucket, "digest_of", lambda body: b"the same")
    monkeypatch.setattr(damage, "_digest_of", lambda text: "the same")
    assert any("goes unseen" in violation for violation in run(0, 0, 40, seed=7).violations)


def test_objects_that_are_spoiled_are_named_and_nothing_that_was_acknowledged_is_lost() -> None:
    tally = Tally()
    anyio.run(object_faults.run, 80, 20, 7, tally)
    assert tally.violations == []
    kinds = {what.split(":")[0] for what in tally.counts}
    assert len(kinds) == 4 * len(object_faults.SPOILS) + 1  # root, heads, journal, base; and lists


def test_an_older_state_that_is_shown_as_the_newest_is_found_out() -> None:
    async def judge() -> object_faults.Found:
        moments = await object_faults.history()
        return await object_faults.judged(memory_bucket(moments[3].objects), moments[5])

    assert anyio.run(judge).wrong == ["the state is another one, and nobody says so"]

"""Forecasts against what really happens: a sample of `python -m tests.reliability.forecasts`."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from reconciler.kinds.volume.kind import VolumeKind
from reconciler.project import trends
from reconciler.rehearsal import forecast
from tests.reliability.forecasts import compared

SEEDS = range(12)


@pytest.mark.slow
def test_forecasts_say_what_comes_to_pass() -> None:
    verdicts = [compared(seed) for seed in SEEDS]
    assert [each for verdict in verdicts for each in verdict.wrong] == []
    foretold = {sort for verdict in verdicts for sort in verdict.counts}
    assert foretold == {"objectives", "snapshots", "ignores", "sizes", "no trend"}


def _stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(seconds: float) -> None:
        return None

    monkeypatch.setattr(forecast, "asyncio", type("clock", (), {"sleep": staticmethod(sleep)}))


def _expires_late(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = forecast._expires

    def late(snapshot: Any) -> datetime | None:
        at = honest(snapshot)
        return at + timedelta(days=1) if at is not None else None

    monkeypatch.setattr(forecast, "_expires", late)


def _due_late(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = VolumeKind.due

    def late(self: VolumeKind, subject: Any) -> dict[str, datetime]:
        return {name: at + timedelta(days=1) for name, at in honest(self, subject).items()}

    monkeypatch.setattr(VolumeKind, "due", late)


def _ignores_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_ignores_over", lambda resources, then, begin, at: [])


def _too_steep(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = trends.pace
    monkeypatch.setattr(forecast, "pace", lambda points: 3 * (honest(points) or 0))


PLANTS = (_stands_still, _expires_late, _due_late, _ignores_for_ever, _too_steep)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS, ids=[each.__name__ for each in PLANTS])
def test_a_planted_bug_turns_the_proof_red(monkeypatch: pytest.MonkeyPatch, plant: Any) -> None:
    plant(monkeypatch)
    assert any(compared(seed).wrong for seed in SEEDS)

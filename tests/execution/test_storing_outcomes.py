"""While an outcome is stored, the next intent may be, too; the next call is sent only when both are."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from reconciler.core.errors import StoreError
from reconciler.state.store import Event, JournalEntry
from tests.execution.stage import Stage, cluster, outcomes, volume

pytestmark = pytest.mark.anyio

FIRST, SECOND = "Volume/shop/data#create", "Volume/shop/more#create"
_PATIENCE_S = 10  # until a test that waits for what never comes has failed


@pytest.fixture
def slow(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> "SlowOutcomes":
    """One call at a time; its outcome is stored only when the next intent is."""
    stage.limit(concurrency=1)
    slow = SlowOutcomes(stage)
    monkeypatch.setattr(stage.store, "commit", slow.commit)
    return slow


class SlowOutcomes:
    """Holds back the outcome of `FIRST`. `sent`: how many calls had been sent when it was stored."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._commit = stage.store.commit
        self._intended = anyio.Event()
        self.sent = 0
        self.fails = False

    async def commit(self, lease: Any, entries: Sequence[JournalEntry], *changes: Any) -> Any:
        errors = [result.error for result in applied.results]

    said = [error for error in errors if error.startswith("the outcome of the call is yes (vol_")]
    assert len(said) > 1
    first, *others = sorted(said, key=len, reverse=True)
    assert "but the state cannot be written: the store cannot be reached" in first
    assert all(error.endswith("): written to the same file") for error in others)

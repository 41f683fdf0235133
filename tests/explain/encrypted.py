"""States that are encrypted otherwise than the settings say."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from reconciler.core.clock import SystemClock
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import REKEYING, Diagnosed, StateMoved
from reconciler.project.settings import find_settings
from reconciler.project.store import encryption_of
from reconciler.state.encryption.bucket import Encryption
from reconciler.state.places.memory import MemoryState
from tests.explain.projects import Act
from tests.state.encryption.doubles import ANA, BEN, in_memory


def read_of(made: Encryption, identity: str) -> Act:
    """Load a state that was `made` so, with the settings of the page."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        text = manifest.replace("age1…", ANA.recipient)
        (folder / "reconcile.yaml").write_text(text, encoding="utf-8")
        config = find_settings(folder, {"STATE_IDENTITY": identity})
        known = MemoryState(SystemClock())

        async def use() -> None:
            await in_memory(known, made).create()
            await in_memory(known, encryption_of(config)).load()

        with pytest.raises(Diagnosed) as refused:
            anyio.run(use)
        return refused.value.diagnostics

    return act


def being_rekeyed(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    return StateMoved("s3://team-state/shop", REKEYING).diagnostics


ACTS: dict[str, Act] = {
    "rekey-unfinished": being_rekeyed,
    "state-encrypted": read_of(ANA.alone, ""),
    "state-identity": read_of(ANA.alone, BEN.identity),
    "state-not-encrypted": read_of(Encryption(), ANA.identity),
}

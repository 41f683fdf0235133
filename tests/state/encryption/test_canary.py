"""Who reads the bucket or the database finds no plain name or value there; without encryption, he does."""

from pathlib import Path

import pytest

from reconciler.core.model import Address, Deletion, Lifecycle, Obligation, StateRecord
from reconciler.state.encryption.bucket import Encryption
from reconciler.state.log.store import LogStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry, Run
from tests.state.encryption.doubles import ANA, sealing
from tests.state.encryption.places import Place, in_memory, in_objects, in_postgres
from tests.state.postgres.conftest import database, postgres  # noqa: F401 - fixtures
from tests.state.worlds import NOON, SimulatedClock

APP, OTHER = "canary-app", "canary-other-app"
MACHINE = Address("Machine", "canary-machine", APP, 3)
SECRET = Address("Secret", "canary-secret", OTHER)
CANARIES = (
    *("canary", "Machine", "Secret", "fly_4711", "mach_4711", "vol_4711", "plan-4711", "run-4711"),
    *("step-4711", "https://platform.example.com", "region-ams", "template", "fingerprint"),
)


@pytest.fixture(params=["memory", "objects", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, clock: SimulatedClock) -> Place:
    if request.param == "memory":
        return in_memory(clock)
    if request.param == "objects":
        return in_objects(clock)
    return in_postgres(request.getfixturevalue("database"), clock)


async def write_all(store: Spooling) -> None:
    """Everything that a run, a person or a failure leaves behind."""
    await store.create()
    whole = await store.lease([WHOLE_STATE], "ana@canary-host")
    facts = {"platform": "https://platform.example.com", "by": "ana@canary-host"}
    await store.commit(whole, [JournalEntry("", Event.DECIDED, NOON, data=facts)])
    await store.release(whole)
    lease = await store.lease([APP, OTHER], "ana@canary-host")
    run = Run("plan-4711", actor="ana@canary-host", reason="the canary ticket")
    record = StateRecord(
        MACHINE,
        "mach_4711",
        APP,
        {"template": "canary-template", "fingerprint": "canary-print", "region": "region-ams"},
        Lifecycle(Deletion.DELETE),
        NOON,
        "manifests/canary.yaml",
        (Obligation("restart", "canary reason", "owed", NOON),),
    )
    intent = JournalEntry(
        "run-4711", Event.INTENT, NOON, MACHINE, "step-4711", 1, {"path": "canary", "scope": APP}
    )
    started = JournalEntry("run-4711", Event.RUN_STARTED, NOON, data=run.to_json())
    (stored,) = await store.commit(lease.of(APP), [started, intent], [record])
    lost = {"unclaimed": "vol_4711", "because": "canary", "scope": APP}
    await store.commit(lease.of(APP), [JournalEntry("run-4711", Event.DECIDED, NOON, data=lost)])
    secret = StateRecord(SECRET, "sec_4711", OTHER, {}, Lifecycle(), NOON)
    await store.commit(lease.of(OTHER), [], [secret])
    done = JournalEntry("run-4711", Event.DONE, NOON, MACHINE, "step-4711", 1, {"id": "fly_4711"})
    await store.spool(lease, [done], [stored], [])
    if isinstance(store.inner, LogStore):
        await store.inner.unlock(APP, force=True, by="ben@canary-host")


@pytest.mark.parametrize("encryption", [Encryption(), ANA.alone], ids=["plain", "encrypted"])
async def test_nothing_that_is_stored_says_a_name_or_a_value(
    place: Place, encryption: Encryption, tmp_path: Path, clock: SimulatedClock
) -> None:
    sealed = place.open(sealing(encryption))
    store = Spooling(sealed, tmp_path / "state.spool", clock, sealed.bucket)  # type: ignore[arg-type]
    await write_all(store)
    spooled = (tmp_path / "state.spool").read_text(errors="replace")
    told = b"".join(await store.spooled()).decode()
    for text in ("\n".join(place.stored()), spooled, told):
        found = [canary for canary in CANARIES if canary in text]
        assert bool(found) is not bool(encryption.recipients)
    (missing,) = [[each for each in CANARIES if each not in "\n".join((*place.stored(), spooled))]]
    assert missing == ([] if not encryption.recipients else list(CANARIES))
    state = await store.load()
    assert state.ids[SECRET] == "sec_4711"
    assert state.platform == "https://platform.example.com"
    journal = await store.journal()
    assert journal[0][1].data["by"] == "ana@canary-host"
    assert journal[-1][1].data == {"id": "fly_4711"}  # the spooled one
    await store.close()

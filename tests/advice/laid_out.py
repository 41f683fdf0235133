"""A case as a real project: files, a state of its own, and the platform's answers behind each verb."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from io import StringIO
from typing import Any

from anyio.from_thread import start_blocking_portal
from msgspec.structs import replace

from reconciler.core.clock import SystemClock
from reconciler.core.model import Address
from reconciler.state import open_store
from reconciler.state.spooling import Spooling
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry
from tests.inprocess import Command
from tests.kinds.case import BASE_URL, MANIFEST, NOW, CaseClock, LivePlatform, state_of


class Agreeing(StringIO):
    """A terminal with a person who says yes."""

    def isatty(self) -> bool:
        return True

    def readline(self, *_: Any) -> str:  # type: ignore[override] # of text, as stdin is
        return "yes\n"


@contextmanager
def laid_out(case: Mapping[str, Any], command: Command) -> Iterator[LivePlatform]:
    """In the block, verbs of `command` find `case`: its files, a state of its own, and its platform."""
    for name, text in {MANIFEST: case["manifests"], **case.get("files", {})}.items():
        command.write(name, text)
    command.write("reconcile.yaml", f"manifests: [{MANIFEST}]\n")
    command.variables |= {
        "RECONCILE_BASE_URL": BASE_URL,
        "RECONCILE_TOKEN": "t0ken",
        "RECONCILE_CAPABILITIES": ",".join(case.get("capabilities", ())),
        **case.get("env", {}),
    }
    clock = CaseClock(datetime.fromisoformat(case.get("now", NOW)))
    platform = LivePlatform(case.get("live", {}), clock.now())
    patch = command.monkeypatch
    patch.setattr("reconciler.project.open.HttpTransport", lambda *_, **__: platform)
    patch.setattr(SystemClock, "now", lambda _: clock.now())
    patch.setattr(SystemClock, "monotonic", lambda _: clock.monotonic())
    patch.setattr(SystemClock, "sleep", lambda _, seconds: clock.sleep(seconds))
    patch.setattr("sys.stdin", Agreeing())
    with start_blocking_portal() as portal:
        others = open_store("sqlite:.reconcile/state.db", root=command.root, clock=clock)
        portal.call(_fill, others, case)
        yield platform
        portal.call(others.close)


async def _fill(store: Spooling, case: Mapping[str, Any]) -> None:
    await store.create()
    state = state_of(case, await store.fingerprint_key())
    entries: dict[str, list[JournalEntry]] = {}
    for entry in (*state.open_intents, *state.unclaimed):
        entries.setdefault(entry.data.get("scope", WHOLE_STATE), []).append(entry)
    for scope in {*entries, *(record.scope for record in state.records.values())}:
        lease = await store.lease([scope], "test")
        put = [replace(each, serial=0) for each in state.records.values() if each.scope == scope]
        await store.commit(lease.of(scope), entries.get(scope, ()), put)
        await store.release(lease)
    for scope in state.spooled:
        lease = await store.lease([scope], "test")
        seen = JournalEntry("run-0", Event.RUN_OBSERVED, datetime.fromisoformat(NOW))
        await store.spool(lease.of(scope), [seen])
        await store.release(lease)
    for scope, holder in case.get("at_work", {}).items():
        await store.lease([scope], holder)


def with_an_object(case: Mapping[str, Any], address: Address) -> tuple[dict[str, Any], str]:
    """`case` where a person finds the object that a lost call for `address` made, and its id."""
    (sent,) = (
        {"name": address.name, **each.get("applied", {})}
        for each in case["intents"]
        if each["address"] == str(address)
    )
    live = dict(case.get("live", {}))
    if address.app:
        id, path = "vol_found", f"/v1/apps/{address.app}/volumes"
        live[path] = [*live.get(path, ()), {"id": id, "state": "created", **sent}]
    else:
        id = "abcdefgh00000001"
        live[f"/v1/postgres/{id}"] = {"data": {"id": id, "status": "ready", **sent}}
    return {**case, "live": live}, id

"""Plays a case again: its manifests are applied to its world, in simulated time, and meet its faults."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from reconciler.approvals.creates import Everything
from reconciler.core.context import Context
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import Diagnosed, Lost, ManifestError, ReconcilerError, StoreError
from reconciler.core.extras import require_extra
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.steps import Plan
from reconciler.evidence.case import HELD_S, MANIFESTS, Case, run_calls, trace_of
from reconciler.execution.observed import FINGERPRINT
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import secret_of
from reconciler.manifests.load import load
from reconciler.project.apply import apply
from reconciler.rehearsal.placeholders import placeholder
from reconciler.rehearsal.process import LATENCY_S, Killed, Process, TwinStore, TwinTransport, answer_of
from reconciler.rehearsal.seed import cannot_plant
from reconciler.rehearsal.twin import KEY, Original, Standstill, Twin
from reconciler.sandbox import faults
from reconciler.sandbox.exchange import Refusal, Request
from reconciler.secrets.fingerprint import fingerprint
from reconciler.services.transport import Answer
from reconciler.state.places.memory import MemoryStore
from reconciler.state.store import Event, JournalEntry, Lease

_URL = "https://replay.invalid"  # of the plan's context; no request goes out
_OTHER_VALUE = "another value"


def declared(manifests: str) -> tuple[list[Resource], list[Resource]]:
    """Resources and policies of a case. Raises ManifestError."""
    with tempfile.TemporaryDirectory(prefix="reconcile-case-") as folder:
        (Path(folder) / MANIFESTS).write_text(manifests, encoding="utf-8")
        loaded = load([str(Path(folder) / MANIFESTS)], root=Path(folder))
    if has_errors(loaded.diagnostics):
        raise ManifestError("the manifests of the case have errors", loaded.diagnostics)
    return loaded.resources, loaded.policies


def replay(case: Case) -> dict[str, Any]:
    """Return the trace of the case with this program; `{"refused": reasons}` where no run starts.

    Raises ReconcilerError where the sandbox is not installed, or cannot hold the case's world.
    """
    require_extra("sandbox", "a replay")
    original = _original(case)
    twin = Twin(original)
    try:
        twin.sandbox.faults.script(faults.read(case.faults), twin.sandbox.lists)
        return twin.run(_played(twin, case))
    except Refusal as refusal:
        raise ReconcilerError(f"the faults of the case are not a fault script: {refusal.message}") from None
    except StoreError as failure:
        raise cannot_plant(failure) from None
    except Standstill:
        return {"refused": ["the replay waits for ever"]}
    finally:
        twin.close()


async def _played(twin: Twin, case: Case) -> dict[str, Any]:
    process = Process()
    project = twin.project(
        process,
        store=_Dying(MemoryStore(twin.memory), process, case.entries),
        transport=_FaultTransport(twin.sandbox, process),
        jitter=lambda: 1.0,
    )
    desired, refused = twin.original.desired(), list[str]()
    try:
        plan = await apply(
            project,
            desired,
            approve=lambda plan: True,
            approved_deletes=Everything(),
            approved_creates=Everything(),
        )
        if not plan.results:
            refused = ["there is nothing to do"]
    except Diagnosed as failure:
        refused = [failure.message, *(problem.message for problem in failure.diagnostics)]
    except ReconcilerError as failure:
        refused = [failure.message]
    except (Killed, BaseExceptionGroup):
        if process.alive:
            raise
    journal = await MemoryStore(twin.memory).journal()
    runs = [entry.run for _, entry in journal if entry.event is Event.RUN_STARTED]
    if not runs:
        return {"refused": refused or ["no call was sent"]}
    of_run = [(scope, entry) for scope, entry in journal if entry.run == runs[-1]]
    return trace_of(run_calls(of_run, settled_later=False))


class _Dying(TwinStore):
    """A store whose process dies once its run has written `entries` journal entries; None: it does not."""

    def __init__(self, inner: MemoryStore, process: Process, entries: int | None) -> None:
        super().__init__(inner, process)
        self._left = entries

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        stored = await super().commit(lease, entries, put, remove)
        if self._left is not None:
            self._left -= sum(entry.event is not Event.DECIDED for entry in entries)
            if self._left <= 0:
                self._process.die()
        return stored


class _FaultTransport(TwinTransport):
    """The transport to a sandbox whose fault script strikes."""

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        self._process.require_alive()
        parts = urlsplit(url)
        request = Request(method, parts.path, parts.query, headers, body or b"")
        fault = self._sandbox.fault_for(request)
        await asyncio.sleep(LATENCY_S)
        self._process.require_alive()
        if fault is None or (fault.action == "delay" and not fault.delay_s):
            return await self._carried_out(request, deadline_s)
        if fault.hold_s:
            await asyncio.Event().wait()
        response = self._sandbox.answer(request, fault)
        if response.delay_s >= HELD_S:
            await asyncio.Event().wait()
        await asyncio.sleep(min(response.delay_s, deadline_s))
        if response.cut or response.delay_s >= deadline_s:
            raise Lost("the connection failed before the answer was complete")
        return answer_of(response)


def _original(case: Case) -> Original:
    """Raises ManifestError for manifests that are not valid any more."""
    resources, policies = declared(case.manifests)
    records = dict(case.state_records())
    kinds = find_kinds()
    about = {Address.parse(text) for text in case.about}
    for resource in resources:
        address = resource.address
        ref = secret_of(kinds[address.kind], resource)
        if ref is not None and address in records:
            value = _OTHER_VALUE if address in about else fingerprint(KEY, address, placeholder(ref))
            applied = {**records[address].applied, FINGERPRINT: value}
            records[address] = replace(records[address], applied=applied)
    begin = datetime.fromisoformat(case.began)
    context = Context("base", _URL, "replay", "replay", None, None, "", begin)
    return Original(
        plan=Plan("", context, (), (), (), (), (), ()),
        begin=begin,
        seed=case.seed,
        lineage="replay",
        records=records,
        resources=resources,
        policies=policies,
        focus=about | {resource.address for resource in resources},
        targets=(),
        selected=frozenset(records),
        declared=frozenset(),
        capabilities=frozenset(case.capabilities),
        limits=case.limits,
        rate_limit=case.rate_limit,
        switches=case.switches,
    )

"""Defects that a reconciler must not have, planted in a process to see that the enumeration catches them.

Each replaces one piece of the product at run time, in the struck run and in those that follow. Nothing
else than the checkers' own checks uses them: `python -m tests.reliability.kills --defects`, and `drills`.
"""

import contextvars
import dataclasses
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec.structs import replace

from tests.reliability.kills.verdict import Kind


@dataclasses.dataclass(frozen=True, slots=True)
class Defect:
    """What `plant` breaks, and the case that shows it: struck at `point`, found as `shown`.

    `shown`: a kind of `verdict`, or words of what `drills` finds.
    """

    plant: Callable[[], None]
    point: str
    signal: str
    shown: Kind | str


def plant(name: str) -> None:
    {**DEFECTS, **DRILL_DEFECTS}[name].plant()


def _intent_after_the_call() -> None:
    from reconciler.execution.recorder import Recorder
    from reconciler.services.client import Client

    due: contextvars.ContextVar[Callable[[], Awaitable[None]] | None] = contextvars.ContextVar("due")
    intending, sending = Recorder.intent, Client.send

    async def intent(self: Recorder, *arguments: Any) -> None:
        due.set(lambda: intending(self, *arguments))

    async def send(self: Client, *arguments: Any, **named: Any) -> Any:
        outcome = await sending(self, *arguments, **named)
        late = due.get()
        assert late is not None
        await late()
        return outcome

    Recorder.intent, Client.send = intent, send  # type: ignore[assignment, method-assign]


def _open_intents_forgotten() -> None:
    from reconciler.state.places.sqlite.store import SqliteStore

    loading = SqliteStore.load

    async def load(self: SqliteStore, scopes: Any = None) -> Any:
        return dataclasses.replace(await loading(self, scopes), open_intents=())

    SqliteStore.load = load  # type: ignore[method-assign, assignment]


def _silence_means_not_landed() -> None:
    from reconciler.execution.settling import Evidence, Settlement

    async def settle(self: Evidence, *arguments: Any, **named: Any) -> Settlement:
        return Settlement("not_landed")

    Evidence.settle = settle  # type: ignore[method-assign]


def _outcome_not_recorded() -> None:
    from reconciler.execution.recorder import Recorder

    async def done(self: Recorder, *arguments: Any, **named: Any) -> None:
        return

    Recorder.done = done  # type: ignore[method-assign]
    _silence_means_not_landed()


def _lost_call_rolled_back() -> None:
    """What a lost create made is deleted, to be created again."""
    from reconciler.core.steps import PLATFORM, Call
    from reconciler.execution.settling import Evidence, Settlement
    from reconciler.services.registry import Services

    settling = Evidence.settle

    async def settle(self: Evidence, intent: Any, sent_at: Any, services: Any, **named: Any) -> Settlement:
        settlement = await settling(self, intent, sent_at, services, **named)
        if settlement.kind == "landed" and intent.creates and isinstance(services, Services):
            path = f"{intent.find.path}/{settlement.id}"
            await services.of(PLATFORM).send(Call("DELETE", path, None), id_path=None)
            return Settlement("not_landed")
        return settlement

    Evidence.settle = settle  # type: ignore[method-assign]


def _unknown_restart_forgotten() -> None:
    from reconciler.execution.intents import Intent

    reading = Intent.from_json

    def from_json(data: Mapping[str, Any]) -> Intent:
        return replace(reading(data), owes="")

    Intent.from_json = from_json  # type: ignore[method-assign]


def _lease_outlives_its_holder() -> None:
    from reconciler.state.places.sqlite.locks import ByteHolders

    def rest_s(self: ByteHolders, beat: Any, tag: str) -> None:
        return None

    ByteHolders.rest_s = rest_s  # type: ignore[method-assign]


def _snapshot_not_taken() -> None:
    from reconciler.kinds.volume.kind import VolumeKind

    removing = VolumeKind.remove

    def remove(self: VolumeKind, subject: Any) -> Any:
        moves = removing(self, subject)
        return replace(moves, steps=tuple(step for step in moves.steps if step.effect.removes))

    VolumeKind.remove = remove  # type: ignore[method-assign]


def _signals_unheard() -> None:
    def install(number: int, handler: Any) -> Any:
        return signal.getsignal(number)

    signal.signal = install  # type: ignore[assignment]


def _steps_start_after_a_signal() -> None:
    from reconciler.execution.executor import Executor

    def stop(self: Executor) -> None:
        return

    Executor.stop = stop  # type: ignore[method-assign]


_CLUSTER = "POST PostgresCluster/fresh#create:effect@1"
_RESTORE = "POST PostgresCluster/orders-copy#restore:effect@1"
_VOLUME = "POST Volume/shop/restored#create:effect@1"
_EXTEND = "PUT Volume/shop/grow#extend:effect@1"
_POLL = "sleep PostgresCluster/fresh#create:before@2"

DEFECTS: Mapping[str, Defect] = {
    "intent-after-the-call": Defect(_intent_after_the_call, _CLUSTER, "KILL", "duplicate"),
    "open-intents-forgotten": Defect(_open_intents_forgotten, _RESTORE, "KILL", "duplicate"),
    "silence-means-not-landed": Defect(_silence_means_not_landed, _CLUSTER, "KILL", "duplicate"),
    "outcome-not-recorded": Defect(_outcome_not_recorded, _POLL, "KILL", "duplicate"),
    "lost-call-rolled-back": Defect(_lost_call_rolled_back, _VOLUME, "KILL", "unapproved delete"),
    "unknown-restart-forgotten": Defect(_unknown_restart_forgotten, _EXTEND, "KILL", "broken promise"),
    "lease-outlives-its-holder": Defect(_lease_outlives_its_holder, _EXTEND, "KILL", "manual unlock"),
    "snapshot-not-taken": Defect(_snapshot_not_taken, _POLL, "TERM", "broken promise"),
    "signals-unheard": Defect(_signals_unheard, _POLL, "TERM", "broken promise"),
    "steps-start-after-a-signal": Defect(
        _steps_start_after_a_signal,
        "POST Volume/shop/old#snapshot:sent@1",
        "INT",
        "broken promise",
    ),
}


# --- of drills ---


def _leftovers_kept() -> None:
    import reconciler.project.drill as drill

    async def clean(*_: Any) -> None:
        return

    drill.clean = clean  # type: ignore[assignment]


def _leftovers_planned_away() -> None:
    from reconciler.approvals.creates import Everything
    from reconciler.planning.deciding import Deciding

    taking = Deciding.take

    def take(self: Deciding, seen: Any) -> None:
        self._request = replace(self._request, approved_deletes=Everything(["any"]))
        taking(self, seen)

    Deciding.take = take  # type: ignore[method-assign]


def _source_deleted() -> None:
    """A delete goes to the object that was restored from."""
    from reconciler.services.client import Client

    sending = Client.send
    source = "/v1/postgres/none"

    async def send(self: Client, call: Any, **named: Any) -> Any:
        nonlocal source
        if call.path.endswith("/restore"):
            source = call.path.removesuffix("/restore")
        if call.method == "DELETE" and call.path.startswith("/v1/postgres/"):
            call = dataclasses.replace(call, path=source)
        return await sending(self, call, **named)

    Client.send = send  # type: ignore[method-assign]


_DRILLED = "POST PostgresCluster/drill-orders-*#restore:effect@1"
_DRILLED_VOLUME = "POST Volume/shop/drill-data-*#create:effect@1"
_DELETED = "DELETE PostgresCluster/drill-orders-*#delete:effect@1"
_LOOKED = "commit:step.done PostgresCluster/drill-orders-*#restore:after@1"

DRILL_DEFECTS: Mapping[str, Defect] = {
    "restore-before-its-intent": Defect(_intent_after_the_call, _DRILLED, "KILL", "left on the platform"),
    "silence-means-no-restore": Defect(_silence_means_not_landed, _DRILLED, "KILL", "left on the platform"),
    "volumes-forgotten": Defect(_open_intents_forgotten, _DRILLED_VOLUME, "KILL", "left on the platform"),
    "leftovers-kept": Defect(_leftovers_kept, _LOOKED, "KILL", "left in the state"),
    "leftovers-planned-away": Defect(_leftovers_planned_away, _LOOKED, "TERM", "plan would delete"),
    "source-deleted": Defect(_source_deleted, _DELETED, "INT", "orders is not as it was"),
}

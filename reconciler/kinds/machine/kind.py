"""The power of machines: started, suspended or stopped. Nothing else of a machine is managed.

The documented API shows no machine. With capability `machine.get` its live state is compared; without
it, the state is unknown, and a call is planned unless the record holds that it was done.
Source: platform API, 3.3, 4.4 and 8; platform notes, "Machines".
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, WithJsonSchema
from pydantic import Field as Describe

from reconciler.core.model import Action, Address, Effect, FieldChange, Path, Resource, StateRecord
from reconciler.core.steps import Read
from reconciler.core.wire import many, one
from reconciler.kinds.base import REPLACED, Decision, Kind, Power, Subject, compare_fields, segment
from reconciler.kinds.machine import power
from reconciler.kinds.manifest import Field, Spec
from reconciler.kinds.restarts import machine_path
from reconciler.kinds.roles import Declared, Importable, KeepsPower, declared_fields
from reconciler.kinds.steps import wait_only
from reconciler.services.machines.wire.machine import RUNNING, Machine


def _canonical_power(value: object) -> object:
    return RUNNING[0] if value in RUNNING else value


class MachineSpec(Spec):
    """The power of an existing machine: started, suspended or stopped. Nothing else of it is managed."""

    id: str = Describe(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", description="The machine's id on the platform."
    )
    power: (
        Annotated[
            Literal["started", "suspended", "stopped"],
            BeforeValidator(_canonical_power),
            WithJsonSchema({"type": "string", "enum": ["started", "suspended", "stopped", "running"]}),
        ]
        | None
    ) = Describe(
        None,
        description="The power state to keep; `running` means `started`, and `stopped` needs capability "
        "`machine.stop`. Without `power`, reconcile does not change the machine's power. "
        # Source: platform API, 8.
        "A suspended machine still reserves its resources and is billed like a stopped one; after it "
        "resumes, its clock can lag a few seconds, and some logs may be lost.",
    )


UNKNOWN = "unknown"
AT_REST = ("suspended", "stopped", "created")


def _undo(change: FieldChange) -> Action:
    if change.before == "started":
        return Action.START if change.after in power.STARTABLE else Action.REFUSED
    if change.before == "stopped":
        return Action.STOP if change.after in power.STOPPABLE else Action.REFUSED
    return Action.SUSPEND if change.after == "started" else Action.REFUSED


def _is_so(want: str, live: str) -> bool:
    """A machine that has never run counts as stopped: nothing of it is in memory."""
    return live == want or (want, live) == ("stopped", "created")


class MachineKind(KeepsPower, Importable, Kind):
    """Machines: existing ones, of which only the power is managed."""

    name = "Machine"
    Spec = MachineSpec
    in_app = True
    lifecycle = ("deletion", "timeout_s", "ignore")
    fields = (Field("power", Effect.IN_PLACE, equal=_is_so, undo=_undo, moves=True),)
    remarks: ClassVar = {
        "id": "refused: run `reconcile state forget ADDRESS` first; the old machine stays as it is"
    }
    example: ClassVar = {"id": "5e1ec7edca5e42", "power": "suspended"}
    id_path = ("spec", "id")
    capabilities: ClassVar = {
        "machine.get": "Shows the live state of a machine: for plans, for drift, and for restarts (only a "
        "running machine is restarted). Without it, the live state is unknown.",
        "machine.list": "Lists the machines of an app: for `import --machines`.",
        "machine.stop": "Stops a machine: for `power: stopped`; with `machine.get` also for "
        "`lifecycle.restart: auto`, which stops and starts it.",
        "machine.restart": "Restarts a machine: `lifecycle.restart: auto` uses it for owed restarts.",
    }
    list_capability = "machine.list"
    watched = (REPLACED,)
    import_when_asked = True  # a deploy may replace a machine by one with another id
    counted_alone = "machines"
    takes_over = False  # a machine is never ours: only its power is
    unreadable = "live state unknown; enable `machine.get` to read it"

    def power(self, address: Address, resource: Resource | None, record: StateRecord | None) -> Power | None:
        if resource is not None:
            wanted = resource.spec.power
            return Power(resource.spec.id, wanted, address) if wanted else None
        last = record.applied.get("power") if record is not None else None
        if record is not None and last in ("suspending", "suspended"):
            return Power(record.id, "suspended", address)
        if record is not None and last in ("stopping", "stopped"):
            return Power(record.id, "stopped", address)
        return None

    # --- observing ---

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        if "machine.get" not in capabilities or id is None:
            return None
        return Read(machine_path(address, id), one(Machine))

    def known_from(self, record: StateRecord) -> str:
        when = record.applied.get(power.CALLED_AT)
        return f"our last call (in the apply of {when})" if when else "our last call"

    # --- importing ---

    def listing(self, place: str, capabilities: frozenset[str]) -> Read | None:
        if self.list_capability not in capabilities:
            return None
        return Read(f"/v1/apps/{segment(place)}/machines", many(Machine))

    def declare(self, live: Any, place: str, given: Mapping[str, Any]) -> Declared:
        """The power is not written: it is managed only if a person asks for it."""
        spec, unfit = declared_fields(MachineSpec, ("id",), live, {})
        if unfit:
            return Declared(place, live.name, refused="a Machine manifest cannot contain its id")
        power = live.power if live.power in ("started", "suspended", "stopped") else "started"
        why = f"it is {live.state} now; its power is not managed until you write this:"
        comments: dict[Path, tuple[str, ...]] = {("spec", "power"): (why, f"power: {power}")}
        return Declared(place, live.name or live.id, spec, comments, apart=live.id)

    # --- deciding ---

    def create(self, subject: Subject) -> Decision:
        """Nothing is recorded, and nothing shows the machine."""
        if subject.spec.power is None:
            return Decision(Action.NOOP)
        wanted = FieldChange("power", UNKNOWN, subject.spec.power, Effect.IN_PLACE)
        return power.unseen(subject, wanted)

    def compare(self, subject: Subject) -> Sequence[FieldChange]:
        """Compare the power with the live state, or with the record if the state is unknown."""
        if subject.live is not None:
            return compare_fields(self.fields, subject)
        want = subject.spec.power
        if want is None or power.recorded(subject) in (want, power.COMING[want]):
            return ()
        return (FieldChange("power", UNKNOWN, want, Effect.IN_PLACE),)

    def as_found(self, subject: Subject, names: Collection[str]) -> Any:
        """Without `power`, no wait is planned either."""
        return subject.spec.model_copy(update={"power": None}) if "power" in names else subject.spec

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Decision:
        """Send the call for the wanted power, or wait for one that was sent."""
        want = subject.spec.power
        if want is None:
            return Decision(Action.NOOP)
        if subject.live is None:
            return self._change_unseen(subject, fields)
        state = subject.live.state
        if fields:
            return power.bring(subject, fields)
        if state in AT_REST or state in RUNNING:
            return Decision(Action.NOOP)
        reason = f"still {state}" if state else "its state is not known"
        return Decision(Action.NOOP, (wait_only(subject, power.until_wanted(subject)),), reason=reason)

    def _change_unseen(self, subject: Subject, fields: Sequence[FieldChange]) -> Decision:
        if fields:
            last = power.recorded(subject)
            sent = (
                f"the last call that succeeded left it {last}" if last else "the last call's answer was lost"
            )
            return power.unseen(subject, fields[0], sent)
        want, last = subject.spec.power, power.recorded(subject)
        if last == power.COMING[want]:
            wait = wait_only(subject, power.reached(subject, want))
            return Decision(Action.NOOP, (wait,), reason=f"still {last}")
        return Decision(Action.NOOP)

    def remove(self, subject: Subject) -> Decision:
        """Forget the record: no manifest creates or deletes machines."""
        return Decision(Action.FORGET, reason="left the manifests; the machine is left as it is")


KIND = MachineKind()

"""The power of machines: suspended, with a wait for it, or started. Nothing else of a machine is managed.

The documented API shows no machine. With capability `machine.get` its live state is compared; without
it, that is unknown, and a call is planned when the record does not hold that it was done.
Source: platform API, 3.3, 4.4 and 8; platform notes, "Machines".
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import eq
from typing import Any, ClassVar

from reconciler.core.diagnostics import Diagnostic, Severity, error
from reconciler.core.model import Action, Address, Effect, FieldChange, Impact, Path, Resource, StateRecord
from reconciler.core.steps import RUN_BEGAN, Already, Call, Condition, Read, Step, Wait
from reconciler.core.wire import many, one, parse_time
from reconciler.kinds.base import ANY, Kind, Moves, OwnCall, Power, Subject, compare_fields, segment
from reconciler.kinds.declared import Declared, declared_fields
from reconciler.kinds.machine.spec import MachineSpec
from reconciler.kinds.manifest import Field
from reconciler.kinds.restarts import STALE
from reconciler.kinds.roles import Importable, KeepsPower
from reconciler.kinds.steps import absolute, wait_only
from reconciler.services.machines.wire.machine import RUNNING, Machine, MachineWaited

UNKNOWN = "unknown"
LARGEST_MB = 2048
UPDATED_SINCE = datetime(2024, 6, 20, 20, tzinfo=UTC)
SLICE_S = 5  # one request of a wait: shorter than the deadline of a read, and than the grace after a signal
STARTABLE = ("suspended", "stopped", "created", "failed")
HOLDS_WITHIN_S = 15  # after a refusal: the state that was asked for may just be coming

_RULES = (
    "the platform suspends machines that run, with at most 2 GB of memory, without swap and schedule, "
    "and updated since 2024-06-20 20:00 UTC"
)


def _undo(change: FieldChange) -> Action:
    if change.before == "started":
        return Action.START if change.after in STARTABLE else Action.REFUSED
    return Action.SUSPEND if change.after == "started" else Action.REFUSED


class MachineKind(KeepsPower, Importable, Kind):
    name = "Machine"
    Spec = MachineSpec
    in_app = True
    lifecycle = ("deletion", "timeout_s", "ignore")
    fields = (Field("power", Effect.IN_PLACE, equal=eq, undo=_undo, moves=True),)
    remarks: ClassVar = {
        "id": "refused: run `reconcile state forget ADDRESS` first; the old machine stays as it is"
    }
    example: ClassVar = {"id": "5e1ec7edca5e42", "power": "suspended"}
    id_path = ("spec", "id")
    capabilities: ClassVar = {
        "machine.get": "Shows the live state of a machine: for plans, for drift, and for restarts (only a "
        "running machine is restarted). Without it, the live state is unknown.",
        "machine.list": "Lists the machines of an app: for `import --machines`.",
        "machine.stop": "Stops a machine: with `machine.get`, `lifecycle.restart: auto` stops and starts it.",
        "machine.restart": "Restarts a machine: `lifecycle.restart: auto` uses it for owed restarts.",
    }
    list_capability = "machine.list"
    import_when_asked = True  # a deploy may replace a machine by one with another id
    counted_alone = "machines"
    takes_over = False  # a machine is never ours: only its power is
    unreadable = "live state unknown; enable `machine.get` to read it"

    def power(self, address: Address, resource: Resource | None, record: StateRecord | None) -> Power | None:
        if resource is not None:
            wanted = resource.spec.power
            return Power(resource.spec.id, wanted, address) if wanted else None
        if record is not None and record.applied.get("power") in ("suspending", "suspended"):
            return Power(record.id, "suspended", address)
        return None

    # --- observing ---

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        if "machine.get" not in capabilities or id is None:
            return None
        return Read(_path(address, id), one(Machine))

    # --- importing ---

    def listing(self, place: str, capabilities: frozenset[str]) -> Read | None:
        if self.list_capability not in capabilities:
            return None
        return Read(f"/v1/apps/{segment(place)}/machines", many(Machine))

    def declare(self, live: Any, place: str, given: Mapping[str, Any]) -> Declared:
        """The power is not written: a person who wants it kept says so."""
        spec, unfit = declared_fields(MachineSpec, ("id",), live, {})
        if unfit:
            return Declared(place, live.name, refused="no Machine manifest can have its id")
        power = live.power if live.power in ("started", "suspended") else "started"
        why = f"it is {live.state} now; its power is left alone until you write it:"
        comments: dict[Path, tuple[str, ...]] = {("spec", "power"): (why, f"power: {power}")}
        return Declared(place, live.name or live.id, spec, comments, apart=live.id)

    # --- what apply holds every plan to ---

    def own_calls(self, subject: Subject, scope: str) -> Iterable[OwnCall]:
        known = subject.record.id if subject.record is not None else ""
        if not known and subject.resource is not None:
            known = subject.spec.id
        path = _path(subject.address, known) if known else f"/v1/apps/{subject.address.app}/machines/{ANY}"
        yield OwnCall("GET", path)
        yield OwnCall("GET", f"{path}/wait", query=r"state=[a-z]+&timeout=\d{1,3}")
        yield OwnCall("POST", f"{path}/suspend")
        yield OwnCall("POST", f"{path}/start")

    # --- deciding ---

    def create(self, subject: Subject) -> Moves:
        """Nothing is recorded, and nothing shows the machine."""
        if subject.spec.power is None:
            return Moves(Action.NOOP)
        wanted = FieldChange("power", UNKNOWN, subject.spec.power, Effect.IN_PLACE)
        return _unseen(subject, wanted)

    def compare(self, subject: Subject) -> Sequence[FieldChange]:
        if subject.live is not None:
            return compare_fields(self.fields, subject)
        want = subject.spec.power
        if want is None or _recorded(subject) in (want, _COMING[want]):
            return ()
        return (FieldChange("power", UNKNOWN, want, Effect.IN_PLACE),)

    def as_found(self, subject: Subject, names: Collection[str]) -> Any:
        """Without `power`, nothing is waited for either."""
        return subject.spec.model_copy(update={"power": None}) if "power" in names else subject.spec

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Moves:
        want = subject.spec.power
        if want is None:
            return Moves(Action.NOOP)
        if subject.live is None:
            return self._change_unseen(subject, fields)
        state = subject.live.state
        if fields:
            return _start(subject, fields) if want == "started" else _suspend(subject, fields)
        if state == "suspended" or state in RUNNING:
            return Moves(Action.NOOP)
        wait = _until_suspended(subject) if want == "suspended" else _until_started(subject)
        reason = f"still {state}" if state else "its state is not known"
        return Moves(Action.NOOP, (wait_only(subject, wait),), reason=reason)

    def _change_unseen(self, subject: Subject, fields: Sequence[FieldChange]) -> Moves:
        if fields:
            last = _recorded(subject)
            sent = (
                f"the last call that succeeded left it {last}" if last else "the last call's answer was lost"
            )
            return _unseen(subject, fields[0], sent)
        want, last = subject.spec.power, _recorded(subject)
        if last == _COMING[want]:
            wait = _reached(subject, want, {"power": want})
            return Moves(Action.NOOP, (wait_only(subject, wait),), reason=f"still {last}")
        when = subject.record.applied.get(_CALLED_AT) if subject.record is not None else None
        call = f"our last call, in the apply of {when}," if when else "our last call"
        unseen = "whether it still exists is unknown (enable `machine.get` to read its live state)"
        why = f"{call} left it {last}; {unseen}"
        remark = Diagnostic(
            "power-unknown", Severity.INFO, f"`{subject.address}`: {why}", subject.span("spec", "power")
        )
        return Moves(Action.NOOP, diagnostics=(remark,))

    def remove(self, subject: Subject) -> Moves:
        return Moves(Action.FORGET, reason="left the manifests; the machine is left as it is")


_CALLED_AT = "power_at"  # the field of a record: when the apply began that sent the last call

# By what is wanted, what the record holds until it is reached.
_COMING = {"suspended": "suspending", "started": "starting"}


def _recorded(subject: Subject) -> Any:
    return subject.record.applied.get("power") if subject.record is not None else None


def _path(address: Address, id: str) -> str:
    return f"/v1/apps/{address.app}/machines/{segment(id)}"


# --- without capability machine.get ---


def _unseen(subject: Subject, change: FieldChange, known: str = "") -> Moves:
    """`known`: what our own calls say of the machine; "" without one."""
    start = change.after == "started"
    verb = "start" if start else "suspend"
    why = f"; {known}" if known else ""
    reason = f"live state unknown (enable `machine.get` to read it){why}; {verb} will be sent"
    if start:
        return Moves(Action.START, (_start_step(subject),), (change,), reason=reason)
    return Moves(Action.SUSPEND, (_suspend_step(subject),), (change,), Impact.DOWNTIME, reason)


# --- with it ---


def _start(subject: Subject, fields: Sequence[FieldChange]) -> Moves:
    state = subject.live.state
    if subject.live.power not in STARTABLE:
        return _refused(subject, fields, f"is {state}, which a start does not change")
    steps = [_start_step(subject)]
    if state == "stopping":
        steps.insert(0, wait_only(subject, _until(subject, "stopped")))
    how = {
        "suspended": "resumes it, or starts it cold if its snapshot is lost",
        "suspending": "may cancel that",
    }.get(state, "starts it cold")
    return Moves(Action.START, tuple(steps), tuple(fields), reason=f"it is {state}; the call {how}")


def _suspend(subject: Subject, fields: Sequence[FieldChange]) -> Moves:
    state = subject.live.state
    if subject.live.power != "started":
        return _refused(subject, fields, f"is {state}: only a machine that runs can be suspended")
    broken = list(_broken_rules(subject.live))
    if broken:
        rules, recipes = zip(*broken, strict=True)
        why = f"cannot be suspended: {', '.join(rules)}"
        return _refused(subject, fields, why, f"{', '.join(recipes)}; or write `power: started`")
    steps = [_suspend_step(subject)]
    if state not in RUNNING:
        steps.insert(0, wait_only(subject, _until_started(subject)))
    reason = f"it is {state}; a later start resumes it only while its snapshot exists"
    return Moves(Action.SUSPEND, tuple(steps), tuple(fields), Impact.DOWNTIME, reason)


def _refused(subject: Subject, fields: Sequence[FieldChange], why: str, recipe: str = "") -> Moves:
    message = f"machine `{subject.address.name}` ({subject.live.id}) {why}"
    problem: Diagnostic = error(
        "machine-power",
        message,
        subject.span("spec", "power"),
        label=f"the live state is {subject.live.state}",
        help=recipe or "start it first (`power: started`), look at it on the platform, or remove `power`",
    )
    return Moves(Action.REFUSED, fields=tuple(fields), diagnostics=(problem,), reason=message)


def _broken_rules(live: Any) -> Iterator[tuple[str, str]]:
    """Each rule that forbids to suspend the machine, and what to do about it. What is not told breaks none.

    Source: platform API, 3.3 and 8.
    """
    guest = live.config.guest if live.config is not None else None
    init = live.config.init if live.config is not None else None
    if guest is not None and (guest.memory_mb or 0) > LARGEST_MB:
        yield f"it has {guest.memory_mb} MB of memory (at most {LARGEST_MB})", "give it less memory"
    if init is not None and init.swap_size_mb:
        yield f"it has {init.swap_size_mb} MB of swap", "remove its swap"
    if live.config is not None and live.config.schedule:
        yield f"it has a schedule ({live.config.schedule})", "remove its schedule"
    updated_at = parse_time(live.updated_at)
    if updated_at is not None and updated_at < UPDATED_SINCE:
        yield "it was last updated before 2024-06-20 20:00 UTC", "update it once (a deploy does)"


# --- calls and waits ---


def _suspend_step(subject: Subject) -> Step:
    wait = _until_suspended(subject)
    return absolute(
        subject,
        "suspend",
        Call("POST", f"{_path(subject.address, subject.spec.id)}/suspend"),
        known_id=subject.spec.id,
        applied={"power": "suspending", _CALLED_AT: RUN_BEGAN},
        wait=wait,
        guard=Already(_soon(wait)),
        lane="suspend",  # many at once are advised against. Source: platform API, 8
        if_refused=_RULES,
    )


def _start_step(subject: Subject) -> Step:
    seen = "machine.get" in subject.capabilities
    wait = _until_started(subject) if seen else _reached(subject, "started", {"power": "started"})
    return absolute(
        subject,
        "start",
        Call("POST", f"{_path(subject.address, subject.spec.id)}/start"),
        known_id=subject.spec.id,
        applied={"power": "started" if seen else "starting", _CALLED_AT: RUN_BEGAN},
        wait=wait,
        guard=Already(_soon(wait)),
        note=f"{STALE}. It is not known whether its memory was kept",
    )


def _until_suspended(subject: Subject) -> Wait:
    return _reached(subject, "suspended", {"power": "suspended"})


def _reached(subject: Subject, state: str, applied: dict[str, Any] | None = None) -> Wait:
    """The platform's own wait, in slices: it answers 408 when a slice is over, and is asked again."""
    slice_s = min(SLICE_S, subject.lifecycle.timeout_s)
    path = f"{_path(subject.address, subject.spec.id)}/wait?state={state}&timeout={slice_s}"
    return Wait(
        Read(path, one(MachineWaited)),
        Condition("reached", any_of=(True,)),
        subject.lifecycle.timeout_s,
        applied=applied or {},
    )


def _until_started(subject: Subject) -> Wait:
    return _until(subject, *RUNNING, fails=("launch_failed", "destroying", "destroyed"))


def _until(subject: Subject, *states: str, fails: tuple[str, ...] = ("destroying", "destroyed")) -> Wait:
    read = Read(_path(subject.address, subject.spec.id), one(Machine))
    return Wait(read, Condition("state", any_of=states, fails=fails), subject.lifecycle.timeout_s)


def _soon(wait: Wait) -> Wait:
    return Wait(wait.read, wait.until, min(wait.timeout_s, HOLDS_WITHIN_S))


KIND = MachineKind()

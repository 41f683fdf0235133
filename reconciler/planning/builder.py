"""The plan in the making: decisions by address, and everything that they rely on."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Action, Address, Change, StateRecord
from reconciler.core.steps import Binding, Expectation, Read, Step
from reconciler.kinds.base import Decision, Kind, Subject
from reconciler.kinds.roles import unmanaged
from reconciler.moves.compare import LEFT
from reconciler.planning.answers import digest_object
from reconciler.planning.declared import ignored_fields
from reconciler.planning.drift import first_seen, is_as_recorded


class PlanBuilder:
    """Collects changes, steps, expectations, bindings and diagnostics of a plan.

    A change says what becomes of an address; steps are the calls for it. An expectation is the fingerprint
    of an object that apply must find again; a binding is a record to write. `unchanged` counts all other
    resources. `settled`: addresses whose owed work is done, without a call.
    """

    def __init__(self) -> None:
        self.changes: dict[Address, Change] = {}
        self.steps: dict[Address, tuple[Step, ...]] = {}
        self.expectations: list[Expectation] = []
        self.bindings: list[Binding] = []
        self._diagnostics: dict[Address, list[Diagnostic]] = {}
        self.unchanged = 0
        self.settled: set[Address] = set()  # what they owed is not owed any more, without a call

    def sort(self, key: Callable[[Address], Any]) -> None:
        """Put all that was collected in the order of `key`: it came in that of answers."""
        self.changes = {address: self.changes[address] for address in sorted(self.changes, key=key)}
        self._diagnostics = {
            problem: self._diagnostics[problem] for problem in sorted(self._diagnostics, key=key)
        }
        self.expectations.sort(key=lambda item: key(item.address))
        self.bindings.sort(key=lambda item: key(item.address))

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The problems of all addresses, in their order."""
        return [item for items in self._diagnostics.values() for item in items]

    def action_of(self, address: Address) -> Action | None:
        """The action decided for `address`; None where nothing changes, or nothing was decided yet."""
        change = self.changes.get(address)
        return change.action if change is not None else None

    def keep(self, record: StateRecord, reason: str) -> None:
        """Leave the object of `record` alone, and its record as it is."""
        self.changes[record.address] = Change(
            record.address, Action.RETAIN, reason=reason, id=record.id or None
        )

    def leave(self, address: Address, reason: str) -> None:
        """Decide nothing about `address` in this plan, since somebody is at work on it."""
        self.changes[address] = Change(address, Action.NOOP, reason=reason)

    def withdraw(self, addresses: Mapping[Address, str]) -> None:
        """Refuse what was decided about `addresses`, each for its reason, and drop all that came of it."""
        for address, why in addresses.items():
            before = self.changes.get(address)
            self.changes[address] = Change(
                address, Action.REFUSED, reason=why, id=before.id if before else None
            )
            self.steps.pop(address, None)
            self._diagnostics.pop(address, None)
        self.expectations = [
            expectation for expectation in self.expectations if expectation.address not in addresses
        ]
        self.bindings = [binding for binding in self.bindings if binding.address not in addresses]

    def refuse(self, address: Address, why: str, *problems: Diagnostic, id: str | None = None) -> None:
        """Do nothing about `address`, because of `problems`."""
        self.report(address, *problems)
        self.changes[address] = Change(address, Action.REFUSED, reason=why, id=id or None)

    def report(self, address: Address, *problems: Diagnostic) -> None:
        """Note problems about `address`."""
        about = (replace(problem, addresses=problem.addresses or (str(address),)) for problem in problems)
        self._diagnostics.setdefault(address, []).extend(about)

    def add(
        self, kind: Kind, subject: Subject, decision: Decision, read: Read | None, candidates: str = ""
    ) -> None:
        """Take a kind's decision about a subject. `read`, `candidates`: see `deciding.Seen`."""
        address, resource, record = subject.address, subject.resource, subject.record
        if decision.action is Action.NOOP and not decision.steps:
            self.unchanged += 1
            if decision.diagnostics:
                self.report(address, *decision.diagnostics)
        else:
            self.report(address, *decision.diagnostics)
            id = subject.live.id if subject.live is not None else record.id if record is not None else None
            self.changes[address] = Change(
                address,
                decision.action,
                decision.fields,
                decision.impact,
                decision.reason,
                id or None,
                decision.advice,
                decision.also,
            )
        if decision.steps:
            self.steps[address] = decision.steps
        confirms = resource is not None and _is_confirmed(kind, subject, decision)
        relies = decision.action is Action.ADOPT or decision.settles or confirms
        if relies or any(step.mutates for step in decision.steps):
            self._expect(kind, subject, decision.action, read, candidates)
        if resource is not None and decision.action is not Action.REFUSED:
            self._bind(kind, subject, decision, confirms=confirms)
        if decision.settles:
            self.settled.add(address)

    def bind_left(self, records: Iterable[StateRecord]) -> None:
        """Have the records remember that they were seen without a manifest."""
        for record in records:
            if not record.applied.get(LEFT):
                self.bindings.append(
                    Binding(record.address, record.scope, record.lifecycle, record.source, None, {LEFT: True})
                )

    def _expect(
        self, kind: Kind, subject: Subject, action: Action, read: Read | None, candidates: str
    ) -> None:
        """Note the fingerprint that an apply must find again before it acts on the subject."""
        serial = subject.record.serial if subject.record is not None else 0
        if subject.live is not None:
            fields = list(kind.guards(subject, action))
            if subject.resource is not None:
                fields += [name for name in _managed(kind, subject) if name not in fields]
            digest = digest_object(subject.live, fields)
            expected = Expectation(subject.address, read, subject.live.id, {}, tuple(fields), digest, serial)
        else:
            listed = subject.resource is not None and read is not None
            match = kind.match(subject.spec, subject.address) if listed else None
            read = read if match is not None else None
            expected = Expectation(subject.address, read, None, match or {}, (), candidates, serial)
        self.expectations.append(expected)

    def _bind(self, kind: Kind, subject: Subject, decision: Decision, *, confirms: bool) -> None:
        """Note the record that an apply writes.

        A changed lifecycle sends nothing, but the record must hold it.
        """
        resource, record = subject.resource, subject.record
        assert resource is not None
        if record is None and subject.live is None and not decision.steps:
            return  # nothing is known that could be recorded
        managed = _managed(kind, subject) if subject.live is not None else {}
        if resource.ignores and subject.live is not None:
            managed |= _first_ignored(kind, subject)
        if subject.live is not None:
            managed = {**_unmanaged(kind, subject), **managed, **first_seen(kind, record, subject.live)}
        if (
            record is not None
            and not decision.steps
            and not decision.settles
            and record.lifecycle == resource.lifecycle
            and record.source == resource.file
            and not record.applied.get(LEFT)
            and all(name in record.applied and record.applied[name] == managed[name] for name in managed)
        ):
            if confirms:
                own = (record.address, record.scope, record.lifecycle, record.source)
                self.bindings.append(Binding(*own, confirms=True))
            return
        self.bindings.append(
            Binding(
                subject.address,
                record.scope if record is not None else kind.scope(resource.spec, subject.address),
                resource.lifecycle,
                resource.file,
                subject.live.id if subject.live is not None else None,
                {**managed, LEFT: False} if record is not None and record.applied.get(LEFT) else managed,
                decision.settles,
            )
        )


def _is_confirmed(kind: Kind, subject: Subject, decision: Decision) -> bool:
    """True for the second look that shows an inferred object, and shows the same as the first one.

    The first one has recorded when it was made. See `reconcile explain inferred-id`.
    """
    record, live = subject.record, subject.live
    if record is None or not record.inferred or live is None or not live.present:
        return False
    return decision.action is Action.NOOP and not decision.steps and is_as_recorded(kind, record, live)


def _managed(kind: Kind, subject: Subject) -> dict[str, Any]:
    """The managed fields that are compared. The record keeps the wanted value of an ignored one, so that a
    difference is drift once the ignore is over.
    """
    managed, ignored = kind.managed(subject), ignored_fields(subject.resource)
    return {name: managed[name] for name in managed if name not in ignored} if ignored else managed


def _unmanaged(kind: Kind, subject: Subject) -> dict[str, Any]:
    """The live values of fields that no manifest names and no record holds yet.

    Drift names them when they move.
    """
    known = subject.record.applied if subject.record is not None else {}
    values = {field.name: getattr(subject.live, field.name, None) for field in unmanaged(kind, subject.spec)}
    blank = (None, "")
    return {name: value for name, value in values.items() if value not in blank and known.get(name) in blank}


def _first_ignored(kind: Kind, subject: Subject) -> dict[str, Any]:
    """The wanted values of ignored fields that were never recorded, such as at an adoption.

    Recorded as it is found, it would be no drift while it is ignored, nor once that is over.
    """
    recorded = subject.record.applied if subject.record is not None else {}
    new = [name for name in ignored_fields(subject.resource) if name not in recorded]
    if not new or not kind.takes_over:
        return {}
    wanted = {change.path: change.after for change in kind.compare(subject)}
    return {name: wanted.get(name, value) for name, value in kind.managed(subject).items() if name in new}

"""One run of one plan: the data that all of its calls share."""

from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reconciler.core.clock import Clock
from reconciler.core.lookup import Lookup
from reconciler.core.model import Address, Observation, Resource, StateRecord
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Binding, OutcomeWord, Plan, Read, Result, SecretRef, Step
from reconciler.core.uses import Uses
from reconciler.execution.limits import Limits
from reconciler.execution.outputs import Outputs, SecretReader, fill_record
from reconciler.execution.recorder import Recorder
from reconciler.execution.send_gate import NotOpen, SendGate
from reconciler.execution.settling import Evidence
from reconciler.secrets.fingerprint import fingerprint
from reconciler.services.registry import Services

Reserve = Callable[[Step, Uses], Awaitable[None]]


@dataclass(eq=False)
class Run:
    """A run under a lease, with the platform as `observed` under that lease.

    `recorded`: the records at its start, after moves. `approved_deletes`: addresses. `results`: by step; for
    a step under way, the result if it is cut off. `stopping`: no new call starts. `outages`: the failures of
    the store that were already reported. `closed`: why a step may not start at a time; "" if it may.
    `reserve`: called before each intent with what it uses, where budgets are in force; raises Refused for
    more than they allow.
    """

    plan: Plan
    services: Services
    recorded: Mapping[Address, StateRecord]
    approved_deletes: Container[str]
    resources: Mapping[Address, Resource]
    capabilities: frozenset[str]
    recorder: Recorder
    observed: Mapping[Read, Observation]
    outputs: Outputs
    read_secret: SecretReader
    fingerprint_key: bytes
    clock: Clock
    reporter: Reporter
    limits: Limits
    closed: Callable[[Step, datetime], str] = lambda step, at: ""
    reserve: Reserve | None = None
    stopping: bool = False
    outages: set[str] = field(default_factory=set)
    results: dict[str, Result] = field(default_factory=dict)
    bindings: Mapping[Address, Binding] = field(init=False)
    gate: SendGate = field(init=False)
    evidence: Evidence = field(init=False)
    _shown: dict[Read, Lookup] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.bindings = {binding.address: binding for binding in self.plan.bindings}
        self.gate = SendGate(self.limits.concurrency, self.clock)
        self.evidence = Evidence(self.clock, self.limits, self.recorder.tracked_ids)

    def shown(self, read: Read) -> Lookup | None:
        """The observation of `read`, indexed once for all creates of an app; None if it was not read."""
        if read in self.observed and read not in self._shown:
            self._shown[read] = Lookup(self.observed[read].objects)
        return self._shown.get(read)

    def require_open(self, step: Step) -> None:
        """Raises NotOpen where `step` may not start now."""
        if why := self.closed(step, self.clock.now()):
            raise NotOpen(why)

    def applied(self, step: Step) -> dict[str, Any]:
        """The fields that the record of `step` gets, with secrets as fingerprints."""

        def print_of(ref: SecretRef) -> str:
            return fingerprint(self.fingerprint_key, step.address, self.read_secret(ref, self.outputs.need))

        return fill_record(step.effect.applied, self.outputs, print_of)

    def result(self, step: Step, outcome: OutcomeWord, error: str = "", note: str = "") -> Result:
        """The result of `step`, with the id that is recorded."""
        record = self.recorder.records.get(step.address)
        return Result(step.address, step.id, outcome, (record.id or None) if record else None, error, note)

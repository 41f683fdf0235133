"""The check of every plan by apply: each request must belong to the address of its step.

A plan is what somebody reviewed; it may have been read from a file. So the plan does not decide which
requests are allowed. The records, the fresh reads under the lease, the manifests (if loaded) and the
approvals decide. Each kind declares its requests (`Kind.own_calls`).
"""

import re
from collections.abc import Collection, Container, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from msgspec import Struct

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.errors import Refused
from reconciler.core.lookup import possible
from reconciler.core.model import Address, Deletion, Observation, Resource, StateRecord
from reconciler.core.steps import EACH_VALUE, PLATFORM, Binding, Plan, Read, Step, Template
from reconciler.execution.outputs import Outputs, fill_path, fill_text
from reconciler.execution.recorder import bound
from reconciler.kinds import find_kinds
from reconciler.kinds.base import ANY, OwnCall, Subject
from reconciler.kinds.roles import claim_of, located
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.registry import Services

Records = Mapping[Address, StateRecord]


class Grounds(Struct, frozen=True):
    """What is known besides the plan. `records`: as they were loaded under the lease, moves carried out.

    `observed`: what is read under it, at `now`, once the plan's reads are known to be its own. `resources`:
    as the manifests declare them; empty where nobody loaded them. `approved_deletes`: addresses.
    """

    now: datetime
    records: Records
    observed: Mapping[Read, Observation]
    capabilities: frozenset[str]
    resources: Mapping[Address, Resource]
    approved_deletes: Container[str]
    outputs: Outputs


class OwnCalls:
    """Says for each request of a plan why it does not belong to its step; "" if it does."""

    def __init__(self, plan: Plan, grounds: Grounds) -> None:
        self._plan = plan
        self._grounds = grounds
        self._bindings: Mapping[Address, Binding] = {each.address: each for each in plan.bindings}
        self._adopted: dict[Address, StateRecord] = {}
        for binding in plan.bindings:
            record = bound(binding, None)
            if record is not None and binding.address not in grounds.records:
                self._adopted[binding.address] = record
        self._by_id: dict[Read, Mapping[str, Any]] = {}

    @property
    def capabilities(self) -> frozenset[str]:
        return self._grounds.capabilities

    def resource(self, address: Address) -> Resource | None:
        """The declared resource; None if not declared, or if no manifests were loaded."""
        return self._grounds.resources.get(address)

    def foreign_reads(self) -> Iterator[Diagnostic]:
        """One error for each read of the plan that does not belong to its address, without `observed`."""
        after = {**self._adopted, **self._grounds.records}
        reads = [(each.address, each.read) for each in self._plan.expectations if each.read is not None]
        reads += [(Address.parse(source), read) for source, read in self._plan.inputs]
        for address, read in reads:
            if not self.reads(address, read, after):
                yield _foreign(address, f"GET {read.path} is not a read of this resource")

    def foreign_calls(self) -> Iterator[Diagnostic]:
        """One error for each adoption and call that is known to be foreign before anything is sent."""
        after = {**self._adopted, **self._grounds.records}
        for address, record in self._adopted.items():
            if not self._may_adopt(record):
                yield _foreign(address, f"`{record.id}` is not an object that this resource may adopt")
        for step in self._plan.steps:
            if step.mutates and isinstance(step.call.path, str):
                why = self.why_foreign(step, step.call.path, after)
                if why:
                    yield _foreign(step.address, why)

    def foreign_bindings(self) -> Iterator[Diagnostic]:
        """One error for each address whose new record would differ from its manifest.

        If the manifest is gone, the old record counts. If no manifests were loaded, nothing is compared
        with them.
        """
        for binding in self._plan.bindings if self._grounds.resources else ():
            address = binding.address
            resource, record = self._grounds.resources.get(address), self._grounds.records.get(address)
            kind = find_kinds().get(address.kind)
            scope = record.scope if record is not None else ""
            if resource is not None and kind is not None:
                own = (resource.lifecycle, resource.file, scope or kind.scope(resource.spec, address))
            elif record is not None:
                own = (record.lifecycle, record.source, scope)
            else:
                own = None
            if own != (binding.lifecycle, binding.source, binding.scope):
                yield _foreign(address, "the record that it would write differs from its manifest")

    def adoption_reads(self) -> Iterator[Read]:
        """The reads that show the objects which the plan records for the first time."""
        for address, record in self._adopted.items():
            read = self._read(address, record)
            if read is not None:
                yield read

    def why_foreign(self, step: Step, path: str, records: Records) -> str:
        """Why the mutation of `step` at `path` must not be sent; `records`: as they are now."""
        call, address = step.call, step.address
        if (call.method == "DELETE") != step.effect.removes:
            return f"{call.method} {path} does not do what the step says"
        if step.effect.removes:
            if str(address) not in self._grounds.approved_deletes:
                return f"DELETE {path} was not approved"
            recorded, now = self._grounds.records.get(address), records.get(address)
            if recorded is None or now is None or recorded.id != now.id or recorded.inferred:
                return f"DELETE {path} would delete what was not recorded with certainty before this run"
            if recorded.lifecycle.deletion is not Deletion.DELETE:
                return f"DELETE {path} would delete what is recorded with lifecycle deletion: retain"
        if not any(self._is(own, step, path) for own in self._own(address, records)):
            return f"{call.method} {path} is not a call of `{address}`"
        return ""

    def reads(self, address: Address, read: Read, records: Records) -> bool:
        """Whether `address` may be observed or waited for with `read`."""
        path, _, query = fill_path(read.path, self._grounds.outputs).partition("?")
        # After a deletion, the wait uses the record from before it.
        return any(
            own.method == "GET"
            and _is_at(own, read.service, path)
            and re.fullmatch(own.query, query) is not None
            for known in (records, self._grounds.records)
            for own in self._own(address, known)
        )

    def _own(self, address: Address, records: Records) -> Iterator[OwnCall]:
        kind = find_kinds().get(address.kind)
        if kind is None:
            return
        record, resource = records.get(address), self._grounds.resources.get(address)
        if record is not None:
            scope = record.scope
        elif resource is not None:
            scope = kind.scope(resource.spec, address)
        else:
            scope = self._bindings[address].scope if address in self._bindings else ""
        live = self._live(address, record) if record is not None else None
        now, capabilities = self._grounds.now, self._grounds.capabilities
        yield from kind.own_calls(Subject(address, resource, record, live, now, capabilities), scope)

    def _is(self, own: OwnCall, step: Step, path: str) -> bool:
        call = step.call
        body = call.body or {}
        return (
            own.method == call.method
            and _is_at(own, call.service, path)
            and own.if_owed == (step.if_owed.machine if step.if_owed is not None else "")
            and all(self._holds(want, body.get(name)) for name, want in own.body.items())
            and (ANY not in own.path or not self._is_anothers(step, path))
        )

    def _holds(self, want: Any, given: Any) -> bool:
        """`want`: of an OwnCall. `given`: of a step's body, where a value of an answer may stand already."""
        if want == EACH_VALUE:
            return given == want or isinstance(given, Sensitive)
        outputs = self._grounds.outputs
        texts = [fill_text(each, outputs) if isinstance(each, Template) else each for each in (want, given)]
        return bool(texts[0] == texts[1])

    def _is_anothers(self, step: Step, path: str) -> bool:
        """Whether a record of another address owns the request, if the step's own record does not say."""
        owner = self._named.get((step.call.method, step.call.service, path), step.address)
        return owner != step.address

    @cached_property
    def _named(self) -> Mapping[tuple[str, str, str], Address]:
        records = self._grounds.records
        return {
            (own.method, own.service, own.path): address
            for address in records
            for own in self._own(address, records)
            if ANY not in own.path
        }

    def _live(self, address: Address, record: StateRecord) -> Any:
        """The object of `record` as the kind's own read has just shown it; None where it did not."""
        read = self._read(address, record)
        if read is None or read not in self._grounds.observed:
            return None
        if read not in self._by_id:
            self._by_id[read] = {item.id: item for item in self._grounds.observed[read].objects}
        return self._by_id[read].get(record.id)

    def _read(self, address: Address, record: StateRecord) -> Read | None:
        kind, resource = find_kinds().get(address.kind), self._grounds.resources.get(address)
        if kind is None:
            return None
        spec = resource.spec if resource is not None else None
        return located(kind, address, record.id, self._grounds.capabilities, spec, record)

    def _may_adopt(self, record: StateRecord) -> bool:
        """Whether the plan may make `record`: its object was just seen, is nobody else's, and is declared."""
        live, resource = self._live(record.address, record), self._grounds.resources.get(record.address)
        if live is None or not live.present or _claim(record) in self._claims:
            return False
        if resource is None:
            return True
        if resource.adopt_id is not None:
            return resource.adopt_id == record.id
        match = find_kinds()[record.address.kind].match(resource.spec, record.address)
        return match is not None and bool(possible(match, [live]))

    @cached_property
    def _claims(self) -> Collection[tuple[str, str | None, str]]:
        return {_claim(record) for record in self._grounds.records.values()}


class OwnReader:
    """Services for the reads of one address: another one is refused."""

    def __init__(self, own: OwnCalls, address: Address, services: Services, records: Records) -> None:
        self._own = own
        self._address = address
        self._services = services
        self._records = records

    async def read(self, read: Read) -> Observation:
        """Raises Refused, before anything is sent, for a read that does not belong to the address."""
        self.check(read)
        return await self._services.read(read)

    def time(self, service: str) -> datetime | None:
        """See `Services.time`."""
        return self._services.time(service)

    def check(self, read: Read) -> None:
        """Raises Refused for a read that does not belong to the address."""
        if not self._own.reads(self._address, read, self._records):
            raise Refused(f"GET {read.path} is not a read of `{self._address}`; it was not sent")


def _claim(record: StateRecord) -> tuple[str, str | None, str]:
    kind = find_kinds().get(record.address.kind)
    claim = claim_of(kind, record.id, None, record) if kind is not None else record.id
    return record.address.kind, record.address.app, claim


def _is_at(own: OwnCall, service: str, path: str) -> bool:
    if own.service != service and (own.service != ANY or service == PLATFORM):
        return False
    if ANY not in own.path:
        return own.path == path
    parts, wanted = path.split("/"), own.path.split("/")
    return len(parts) == len(wanted) and all(
        part == want or (want == ANY and part and _may_be(own, part))
        for part, want in zip(parts, wanted, strict=True)
    )


def _may_be(own: OwnCall, part: str) -> bool:
    """Whether ANY may stand for `part`."""
    if own.never and re.fullmatch(own.never, part):
        return False
    return not own.any_of or re.fullmatch(own.any_of, part) is not None


def _foreign(address: Address, why: str) -> Diagnostic:
    anew = command("plan")
    return error(
        "foreign-call",
        f"`{address}`: {why}",
        help="this plan was not made from this state and this platform: find out where the plan comes from, "
        f"and create a new one with `{anew}`",
        advice=(anew,),
    )

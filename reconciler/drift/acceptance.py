"""What is written into manifests because the platform shows it, and what cannot be."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Span
from reconciler.core.model import Address, Change, StateRecord
from reconciler.core.steps import Plan


class Accepted(Struct, frozen=True):
    """One value that was written: where, and what the manifest said before.

    `span`: None where no manifest names the object, and its record takes the value.
    """

    address: Address
    path: str
    span: Span | None
    before: Any
    after: Any


class Refusal(Struct, frozen=True):
    """One value that cannot be written, and where a person has to edit."""

    address: Address
    path: str
    why: Diagnostic


class Acceptance(Struct, frozen=True):
    """What became of a wish to accept. With a refusal nothing was written.

    `remaining`: the changes that still are drift. `others`: addresses that could be accepted without those
    refused. `quiet`: addresses that were named and have not drifted. `remarks`: what a
    person must know of values that were written. `records`: those of objects without a manifest as they are
    to be from now on, which `keep_records` writes.
    """

    accepted: Sequence[Accepted]
    refused: Sequence[Refusal]
    remaining: Sequence[Change]
    others: Sequence[Address] = ()
    quiet: Sequence[Address] = ()
    remarks: Sequence[Diagnostic] = ()
    records: Sequence[StateRecord] = ()

    def shown_in(self, plan: Plan) -> Plan:
        """`plan` with what is to be said now: nothing of values that are not there any more."""
        spans = [each.span for each in self.accepted if each.span is not None]
        replaced = {(each.file, each.line, each.column) for each in spans}
        remaining = [
            each
            for each in plan.diagnostics
            if each.span is None or (each.span.file, each.span.line, each.span.column) not in replaced
        ]
        refusals = dict.fromkeys(each.why for each in self.refused)
        return replace(plan, diagnostics=(*remaining, *refusals, *self.remarks))

"""Prices: a reviewed CSV file, and what objects cost in a month by it. Amounts are decimals, never floats.

    kind,region,unit,price
    Volume,,GB-month,0.15
    PostgresCluster/launch,fra,month,282.00

Of the rows with one unit, the first that fits counts; so an object may have a price for itself (`month`) and
one for each GB (`GB-month`). `*` or nothing as kind or region fits any.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.errors import ManifestError, Refused
from reconciler.core.model import Action, Address, Change, Effect, Resource, StateRecord
from reconciler.core.steps import Plan
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import HoldsData
from reconciler.manifests.files import lies_in, name_of, outside_root
from reconciler.project.files import read_file
from reconciler.project.settings import ProjectSettings
from reconciler.reports.fragments import PriceJson
from reconciler.state.store import State

UNITS = ("GB-month", "month")
_ANY = ("", "*")
_MOST_BYTES = 100_000  # less than the csv module takes as one value


class Row(NamedTuple):
    """One line of the file; its fields are the columns."""

    kind: str
    region: str
    unit: str
    price: str


class Prices(Struct, frozen=True):
    rows: Sequence[Row]

    def monthly(
        self, kind: str, fields: Mapping[str, Any], gb: int | Decimal | None, number: int = 1
    ) -> Decimal | None:
        """What `number` things with the same `plan` and `region`, of `gb` together, cost in a month.

        None where no row fits, or a size that a row asks for is not known.
        """
        plan, region = (str(fields.get(name) or "") for name in ("plan", "region"))
        kinds, costs = (*_ANY, kind.casefold(), f"{kind}/{plan}".casefold()), list[Decimal]()
        fit = [row for row in self.rows if row.kind.casefold() in kinds and row.region in (*_ANY, region)]
        for unit, quantity in zip(UNITS, (gb, number), strict=True):
            row = next((row for row in fit if row.unit == unit), None)
            if row is not None and quantity is None:
                return None
            if row is not None and quantity is not None:
                costs.append(Decimal(row.price) * quantity)
        return sum(costs, Decimal()) if costs else None


# --- reading ---


def read_prices(path: Path, root: Path) -> Prices:
    """Raises ReconcilerError where the file cannot be read, and ManifestError for mistakes in it."""
    name, data = name_of(str(path), root), read_file(path, _MOST_BYTES + 1)
    text = data.decode("utf-8-sig", "replace") if len(data) <= _MOST_BYTES else ""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    problems = [problem for number, line in lines[1:] for problem in _mistakes(name, number, line)]
    if not lines or tuple(_cells(lines[0][1])) != Row._fields or "\ufffd" in text:
        wanted = f"the first line must be `{','.join(Row._fields)}`, in a UTF-8 file of at most 100 kB"
        problems = [error("bad-price", wanted, Span(name, 1, 1, 1))]
    if problems:
        raise ManifestError("the price file is not valid", problems)
    return Prices([Row(*_cells(line)) for _, line in lines[1:]])


def _cells(line: str) -> Sequence[str]:
    return [cell.strip() for cell in next(csv.reader([line]))]


def _mistakes(file: str, number: int, line: str) -> Iterator[Diagnostic]:
    kinds = [word for kind, role in _priced().items() for word in (kind, role.copies)]
    wanted = (  # of each value
        (rf"\*?|(?i:{'|'.join(kinds)})(/.*)?", f"a kind that has a price; there are {', '.join(kinds)}"),
        (".*", ""),
        ("|".join(UNITS), f"a unit; there are {' and '.join(UNITS)}"),
        (r"[0-9]{1,12}(\.[0-9]{1,12})?", "a price; one looks like 0.15"),
    )
    cells, column = _cells(line), 1
    if len(cells) != len(wanted):
        whole = Span(file, number, 1, 1 + len(line))
        yield error("bad-price", f"expected {len(wanted)} values, found {len(cells)}", whole)
        return
    for value, (pattern, what) in zip(cells, wanted, strict=True):
        column = max(line.find(value, column - 1) + 1, column)
        if not re.fullmatch(pattern, value):
            yield error(
                "bad-price", f"`{value}` is not {what}", Span(file, number, column, column + len(value))
            )
        column += len(value)


def _priced() -> Mapping[str, HoldsData]:
    found = {name: kind.role(HoldsData) for name, kind in find_kinds().items()}
    return {name: role for name, role in found.items() if role is not None}


def prices_of(config: ProjectSettings) -> Prices | None:
    """The prices that the settings name, if any. Raises as `read_prices`, and Refused for a link outwards."""
    if config.settings.prices is None:
        return None
    path = config.root / config.settings.prices
    if not lies_in(path, config.root):
        raise Refused("the price file is not in the project", [outside_root(config.settings.prices)])
    return read_prices(path, config.root)


# --- what a plan changes ---


def price_of_plan(
    prices: Prices, plan: Plan, resources: Mapping[Address, Resource], state: State
) -> PriceJson:
    """By how much a plan changes the price of a month, without the copies of data."""
    monthly, unpriced, kinds = Decimal(), dict[str, None](), _priced()
    deleted = {step.address: step.uses["gb_deleted"] for step in plan.steps if "gb_deleted" in step.uses}
    for change in plan.changes:
        address = change.address
        if address.kind not in kinds:
            continue
        for sign, fields in _sides(change, resources.get(address), state.records.get(address)):
            gb = deleted.get(address) if sign < 0 else None
            cost = prices.monthly(address.kind, fields, gb or kinds[address.kind].size_gb(fields))
            monthly += sign * (cost or 0)
            unpriced |= {str(address): None} if cost is None else {}
    return PriceJson(monthly, tuple(unpriced))


def _sides(
    change: Change, resource: Resource | None, record: StateRecord | None
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The object before (-1) and after (1) a change that has a price."""
    fields: dict[str, Any] = dict(record.applied) if record is not None else {}
    if Action.DELETE in change.actions:
        yield -1, fields
    if resource is not None:
        fields |= {name: getattr(resource.spec, name) for name in resource.spec.model_fields_set}
    if not {Action.CREATE, Action.RESTORE}.isdisjoint(change.actions):
        yield 1, fields
    elif Action.EXTEND in change.actions:
        grown = [field for field in change.fields if field.effect is Effect.GROW]
        yield -1, fields | {field.path: field.before for field in grown}
        yield 1, fields | {field.path: field.after for field in grown}

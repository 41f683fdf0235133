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
from reconciler.kinds.roles import TakesSpace
from reconciler.manifests.files import lies_in, name_of, outside_root
from reconciler.project.files import read_file
from reconciler.project.settings import ProjectSettings
from reconciler.reports.fragments import PriceJson
from reconciler.state.store import State

UNITS = ("GB-month", "month")
_ANY = ("", "*")
_AMOUNT = re.compile(r"\d{1,12}(\.\d{1,12})?")
_MOST_BYTES = 100_000  # less than the csv module takes as one value
_GIB = 2**30


class Row(NamedTuple):
    """One line of the file; its fields are the columns."""

    kind: str
    region: str
    unit: str
    price: str


class Billed(NamedTuple):
    """What is paid for: `number` things of `kind`, of so many GB together. `plan`: of a cluster; "": none."""

    kind: str
    plan: str
    region: str
    number: int
    gb: Decimal | None

    @classmethod
    def of(cls, kind: str, fields: Mapping[str, Any], size_gb: int | None) -> "Billed":
        """One object with these fields."""
        plan, region = (str(fields.get(name) or "") for name in ("plan", "region"))
        return cls(kind, plan, region, 1, Decimal(size_gb) if size_gb is not None else None)


class Prices(Struct, frozen=True):
    rows: Sequence[Row]

    def monthly(self, billed: Billed) -> Decimal | None:
        """What it costs in a month; None where no row fits, or a size that a row asks for is not known."""
        found = None
        for unit, quantity in zip(UNITS, (billed.gb, Decimal(billed.number)), strict=True):
            row = next((row for row in self.rows if row.unit == unit and _fits(row, billed)), None)
            if row is not None and quantity is None:
                return None
            if row is not None and quantity is not None:
                found = (found or Decimal()) + Decimal(row.price) * quantity
        return found


def _fits(row: Row, billed: Billed) -> bool:
    kinds = (*_ANY, billed.kind.casefold(), f"{billed.kind}/{billed.plan}".casefold())
    return row.kind.casefold() in kinds and row.region in (*_ANY, billed.region)


def gb_of(bytes: int) -> Decimal:
    return Decimal(bytes) / _GIB


# --- reading ---


def read_prices(path: Path, root: Path) -> Prices:
    """Raises ReconcilerError where the file cannot be read, and ManifestError for mistakes in it."""
    name, data = name_of(str(path), root), read_file(path, _MOST_BYTES + 1)
    try:
        text = data.decode("utf-8-sig") if len(data) <= _MOST_BYTES else ""
    except UnicodeDecodeError:
        text = ""
    rows, problems, header = list[Row](), list[Diagnostic](), False
    for number, line in enumerate(text.splitlines(), start=1):
        cells = list(_cells(line))
        values = [value for _, value in cells]
        if not header and values:
            header = tuple(values) == Row._fields
            if not header:
                break
        elif values and len(cells) != len(Row._fields):
            what = f"expected {len(Row._fields)} values, found {len(cells)}"
            problems.append(_bad(name, number, 1, line, what))
        elif values:
            mistakes = [
                _bad(name, number, column, value, message)
                for key, (column, value) in zip(Row._fields, cells, strict=True)
                if (message := _mistake(key, value))
            ]
            problems += mistakes
            rows += [] if mistakes else [Row(*values)]
    if not header:
        wanted = f"the first line must be `{','.join(Row._fields)}`, in a UTF-8 file of at most 100 kB"
        problems.append(_bad(name, 1, 1, "", wanted))
    if problems:
        raise ManifestError("the price file is not valid", problems)
    return Prices(rows)


def _cells(line: str) -> Iterator[tuple[int, str]]:
    """The values of a line, each with its column from 1."""
    start = 0
    for cell in next(csv.reader([line]), ()):
        at = max(line.find(cell, start), start)
        start = at + len(cell)
        yield at + 1, cell


def _mistake(key: str, value: str) -> str:
    """What is wrong with the value in the column `key`; "" for nothing."""
    if key == "price" and not _AMOUNT.fullmatch(value):
        return f"`{value}` is not a price; one looks like 0.15"
    if key == "unit" and value not in UNITS:
        return f"`{value}` is not a unit; there are {' and '.join(UNITS)}"
    known = [word for kind, role in _priced().items() for word in (kind, role.copies)]
    if key == "kind" and value.partition("/")[0].casefold() not in (*_ANY, *map(str.casefold, known)):
        return f"`{value}` is not a kind that has a price; there are {', '.join(known)}"
    return ""


def _bad(file: str, line: int, column: int, value: str, message: str) -> Diagnostic:
    return error("bad-price", message, Span(file, line, column, column + len(value)))


def _priced() -> Mapping[str, TakesSpace]:
    found = {name: kind.role(TakesSpace) for name, kind in find_kinds().items()}
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
    for change in plan.changes:
        address = change.address
        if address.kind not in kinds:
            continue
        for sign, fields in _sides(change, resources.get(address), state.records.get(address)):
            cost = prices.monthly(Billed.of(address.kind, fields, kinds[address.kind].size_gb(fields)))
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

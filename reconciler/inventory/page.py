"""The JSON of an inventory, and what people read of it. Amounts of money are decimals, as texts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Annotated, Literal

from msgspec import Struct

from reconciler.core.context import Context
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.words import counted, in_words
from reconciler.importing.ownership import Entry
from reconciler.kinds.roles import GIB, Look
from reconciler.reports.escape import page_text
from reconciler.reports.fragments import AddressText, ContextJson, DiagnosticJson, Json, Moment, Whole, says
from reconciler.reports.report import InventoryReport
from reconciler.reports.verdict import CENT

_COLUMNS = ("object", "owner", "where", "size", "machine", "copies", "a month", "removal")


class CopiesJson(Json, frozen=True):
    """Those that can be restored."""

    kind: str
    count: Whole
    bytes: Annotated[int, says("Of all of them together.")]
    newest: Moment | None
    oldest: Moment | None
    monthly: Decimal | None = None


class ItemJson(Json, frozen=True, kw_only=True):
    """One object of the platform, whether or not anybody declared it. Prices are per month."""

    kind: str
    id: str
    name: str | None
    place: Annotated[str, says("Its app, or its organization.")]
    owner: Annotated[
        Literal["declared", "recorded", "undeclared"], says("recorded: in a state, without a manifest here.")
    ]
    address: AddressText | None = None
    why: Annotated[str, says("What makes it declared or recorded.")] = ""
    region: str | None = None
    plan: str | None = None
    size_gb: int | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None
    attached: Annotated[bool | None, says("Whether a machine holds it.")] = None
    detached_since: Annotated[Moment | None, says("By our own looks.")] = None
    copies: Annotated[CopiesJson | None, says("Where they can be listed.")] = None
    monthly: Annotated[Decimal | None, says("Without its copies.")] = None
    removal: Annotated[str, says("Whether its removal is proposed, and why not.")] = ""

    @property
    def cost(self) -> Decimal | None:
        """What it costs in a month with its copies; None where nothing of it has a price."""
        return _sum((self.monthly, self.copies.monthly if self.copies is not None else None))


class UnpricedJson(Json, frozen=True):
    """Objects of one kind and region that the price file does not name."""

    kind: str
    region: str
    count: Whole


class InventoryJson(Json, frozen=True, kw_only=True):
    """All objects that the token can read, of the kinds that can be listed."""

    format_version: Literal["1"]
    context: ContextJson
    objects: tuple[ItemJson, ...]
    monthly: Annotated[Decimal | None, says("Of all that has a price; null where nothing has.")]
    unpriced: tuple[UnpricedJson, ...]
    files: Annotated[tuple[str, ...], says("Manifests that propose a removal.")]
    diagnostics: tuple[DiagnosticJson, ...]


class Inventory(Struct, frozen=True):
    """`removals`: manifests that adopt what may be removed. `context`: at the platform's time."""

    items: Sequence[ItemJson]
    unpriced: Sequence[UnpricedJson]
    removals: Sequence[Entry]
    problems: Sequence[Diagnostic]
    context: Context


def inventory_report(found: Inventory, files: Sequence[str]) -> InventoryReport:
    """`files`: the manifests of removals that were written."""
    items = sorted(found.items, key=lambda item: (item.place, item.kind, item.name or "", item.id))
    tables, lines = dict[str, Sequence[Sequence[str]]](), list[str]()
    for place, group in groupby(items, lambda item: item.place):
        of_place = list(group)
        rows = [_cells(item, found.context.at) for item in of_place]
        tables[place] = [_COLUMNS, *rows]
        lines.append(f"{place}: {_total(of_place)}")
        lines += [f"  {row[0]}: {'; '.join(filter(None, row[1:]))}" for row in rows]
    lines += [f"unpriced: {counted(each.count, each.kind)} in {each.region}" for each in found.unpriced]
    lines += [f"Wrote {file}: a change for a pull request. Nothing is removed." for file in files]
    total = f"Inventory: {_total(items)}."  # first and last, as in all reports
    document = {
        "objects": items,
        "monthly": _sum(item.cost for item in items),
        "unpriced": found.unpriced,
        "files": files,
        "diagnostics": DiagnosticJson.all_of(found.problems),
    }
    return InventoryReport(
        document=document,
        text=page_text([total, *lines, total]),
        tables=tables,
        context=found.context,
        diagnostics=tuple(found.problems),
    )


def _total(items: Sequence[ItemJson]) -> str:
    """`2 Volumes, 4 Snapshots, 13 GB, 1 undeclared, 1 without a machine; 1.95 a month`."""
    counts = Counter(item.kind for item in items)
    for copies in (item.copies for item in items if item.copies is not None):
        counts[copies.kind] += copies.count
    parts = [counted(number, kind) for kind, number in counts.items()]
    parts.append(f"{sum(item.size_gb or 0 for item in items)} GB")
    marks = Counter(item.owner for item in items if item.owner != "declared")
    parts += [f"{number} {owner}" for owner, number in sorted(marks.items())]
    if number := sum(item.attached is False for item in items):
        parts.append(f"{number} without a machine")
    monthly = _sum(item.cost for item in items)
    return ", ".join(parts) + (f"; {monthly.quantize(CENT)} a month" if monthly is not None else "")


def _sum(prices: Iterable[Decimal | None]) -> Decimal | None:
    """The sum of those that are known; None where none is."""
    known = [price for price in prices if price is not None]
    return sum(known, Decimal()) if known else None


def _cells(item: ItemJson, at: datetime) -> Sequence[str]:
    """One text for each column; "" where there is nothing to say."""
    known, copies = item.address or f"{item.kind} {item.name or ''}".strip(), item.copies
    size = [f"{item.size_gb} GB"] if item.size_gb is not None else []
    size.append(str(Look(at, item.size_gb, item.used_bytes, item.total_bytes)))
    since = _day(item.detached_since, at) if item.detached_since is not None else "not recorded"
    machines = {None: "", True: "has a machine", False: f"without a machine since: {since}"}
    return (
        f"{known} ({item.id})",
        item.owner,
        " ".join(filter(None, (item.region, item.plan))),
        ", ".join(filter(None, size)),
        machines[item.attached],
        _copies(copies, at) if copies is not None else "",
        f"{item.cost.quantize(CENT)} a month" if item.cost is not None else "",
        item.removal,
    )


def _copies(copies: CopiesJson, at: datetime) -> str:
    known = [("newest", copies.newest), ("oldest", copies.oldest)]
    ages = "".join(f", {word} {_day(moment, at)}" for word, moment in known if moment is not None)
    return f"{counted(copies.count, copies.kind)}, {copies.bytes / GIB:.1f} GB{ages}"


def _day(moment: datetime, at: datetime) -> str:
    ago = in_words(max(0.0, (at - moment).total_seconds()))
    return f"{moment:%Y-%m-%d %H:%M} UTC ({ago} ago)"

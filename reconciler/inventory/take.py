"""Takes the inventory: what there is on the platform, who owns it, its copies, its price. Sends only GET."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from msgspec.structs import asdict, replace

from reconciler.core.context import Origin
from reconciler.core.diagnostics import Diagnostic, Severity, error
from reconciler.core.model import Address, Deletion, Observation
from reconciler.core.steps import Read
from reconciler.importing.files import Present
from reconciler.importing.ownership import Entry, Known, Live, sort_out
from reconciler.importing.search import Wanted, find_live
from reconciler.importing.unmanaged import doubtful_objects, know
from reconciler.inventory.page import CopiesJson, Inventory, ItemJson, UnpricedJson
from reconciler.inventory.prices import Prices
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import HoldsData, Importable, Look
from reconciler.project.identity import require_state
from reconciler.project.looks import looks_at, record_looks, recorded_looks
from reconciler.project.project import Project, read_all

_UNUSED = timedelta(days=7)  # so long our own looks must have seen a volume without a machine
_GAP = timedelta(days=2)  # what nobody looked at for longer may have had one in between


async def take_inventory(
    project: Project,
    present: Present,
    origin: Origin,
    *,
    prices: Prices | None,
    records: bool,
    proposes: bool,
) -> Inventory:
    """Look at all apps and organizations that manifests and state name. `records`: keep the looks.

    `proposes`: say of each undeclared object whether its removal can be proposed. Raises ReconcilerError if
    nothing can be read, or the looks cannot be kept.
    """
    state = await (require_state(project) if records else project.store.load())
    known = await know(project, state, present)
    wanted, unlisted = _wanted(known, project.capabilities)
    found = await find_live(project, wanted)
    at = found.at or project.clock.now()
    there = [live for live in found.live if live.kind.role(HoldsData) is not None and live.item.present]
    doubtful, open_calls = doubtful_objects(there, state)
    copies, unread = await _copies(project, there)
    items: dict[tuple[str, str, str], ItemJson] = {}
    unpriced: Counter[tuple[str, str]] = Counter()
    for live in there:
        look, before = Look.of(live.item, at), recorded_looks(state, live.kind.name, live.id)
        item = _item(live, look, known, copies.get(live.key), detached_since(before, look))
        items[live.key] = _priced(item, prices, unpriced) if prices is not None else item
    if records:
        await record_looks(project, looks_at((live.item for live in there), at))
    removals: Sequence[Entry] = ()
    if proposes:
        asked = [live for live in there if items[live.key].owner == "undeclared"]
        kept = {live.key: _why_kept(items[live.key], at, known, live.key in doubtful) for live in asked}
        entries, skipped = sort_out((live for live in asked if not kept[live.key]), known)
        kept |= {each.live.key: each.reason for each in skipped}
        removals = [_removal(entry, items[entry.live.key]) for entry in entries]
        for key, why in kept.items():
            items[key] = replace(items[key], removal=f"not proposed: {why}" if why else "proposed")
    problems = [*found.problems, *open_calls, *unlisted, *unread]
    return Inventory(
        list(items.values()),
        [UnpricedJson(kind, region, count) for (kind, region), count in sorted(unpriced.items())],
        removals,
        [each for each in problems if each.code != "import-not-found"],  # what is gone, drift tells
        replace(project.context(origin, state.lineage), at=at),
    )


def _wanted(known: Known, capabilities: frozenset[str]) -> tuple[Wanted, Sequence[Diagnostic]]:
    """All that can be listed, and by its id what nothing lists."""
    organizations, alone, problems = set[str](), set[str](), list[Diagnostic]()
    declared, records = {each.address: each for each in known.resources}, known.records.values()
    outside = (role for kind in find_kinds().values() if (role := kind.role(Importable)) and not kind.in_app)
    for kind in outside:
        mine = [each for each in known.resources if each.address.kind == kind.name]
        own = [each for each in records if each.address.kind == kind.name]
        if kind.listing("-", capabilities) is not None:
            organizations |= {kind.place(each, declared) for each in mine}
            organizations |= {each.scope.removeprefix("org/") for each in own}
            continue
        alone |= {each.adopt_id or "" for each in mine} | {each.id for each in own}
        why = f"{kind.name}s without a record are not seen: nothing lists them"
        help = f"add `{kind.list_capability}` to `platform.capabilities` if your platform has it"
        problems.append(Diagnostic("capability-missing", Severity.INFO, why, help=help))
    return Wanted(known.apps(), sorted(organizations - {""}), alone=sorted(alone - {""})), problems


async def _copies(
    project: Project, there: Sequence[Live]
) -> tuple[Mapping[tuple[str, str, str], CopiesJson], Sequence[Diagnostic]]:
    """The usable copies of each object, by a GET each; errors for those that cannot be read."""
    reads: dict[Read, tuple[Live, HoldsData]] = {}
    for live in there:
        role = live.kind.role(HoldsData)
        if role is not None and not live.item.bad_id:
            address = Address(live.kind.name, "-", live.place if live.kind.in_app else None)
            details = role.details(address, live.id, project.capabilities)
            reads |= dict.fromkeys(details.values(), (live, role))
    answers: dict[Read, Observation] = {}
    await read_all(project, list(reads), answers.__setitem__)
    found, problems = dict[tuple[str, str, str], CopiesJson](), list[Diagnostic]()
    for read, (live, role) in reads.items():
        if not answers[read].complete:
            what = f"cannot read {role.copies}s of {live}: {answers[read].problem}"
            problems.append(error("unreadable", what))
            continue
        made = [one for item in answers[read].objects if (one := role.copied(item)) is not None]
        times, total = [at for at, _ in made], sum(size for _, size in made)
        newest, oldest = max(times, default=None), min(times, default=None)
        found[live.key] = CopiesJson(role.copies, len(made), total, newest, oldest)
    return found, problems


def _item(
    live: Live, look: Look, known: Known, copies: CopiesJson | None, since: datetime | None
) -> ItemJson:
    declared = live.kind.declare(live.item, live.place, known.given(live))
    sizes = {name: value for name, value in asdict(look).items() if name != "at"}
    left_out, owner = known.left_out(live, declared), known.owner(live)
    return ItemJson(
        kind=live.kind.name,
        id=live.id,
        name=live.item.name,
        place=declared.place,
        owner="undeclared" if not left_out else "recorded" if left_out.why == "recorded" else "declared",
        address=str(owner) if owner is not None else None,
        why=left_out.reason if left_out is not None else "",
        region=live.item.region,
        plan=getattr(live.item, "plan", None),
        detached_since=since,
        copies=copies,
        **sizes,
    )


def _priced(item: ItemJson, prices: Prices, unpriced: Counter[tuple[str, str]]) -> ItemJson:
    """`item` with what it costs. What has no price is counted in `unpriced`, by kind and region."""

    def cost(kind: str, number: int, gb: int | Decimal | None) -> Decimal | None:
        found = prices.monthly(kind, {"plan": item.plan, "region": item.region}, gb, number)
        if found is None and number:
            unpriced[kind, item.region or ""] += number
        return found

    copies = item.copies
    if copies is not None:
        copies = replace(copies, monthly=cost(copies.kind, copies.count, Decimal(copies.bytes) / 2**30))
    return replace(item, monthly=cost(item.kind, 1, item.size_gb), copies=copies)


# --- what may be removed ---


def detached_since(looks: Sequence[Look], now: Look) -> datetime | None:
    """Since when our own looks have seen it without a machine; None: it has one now, or nothing tells.

    A gap between two looks ends the search: there may have been a machine in it.
    """
    since, later = None, now
    for look in reversed(looks):
        if now.attached is not False or look.attached is not False or later.at - look.at > _GAP:
            break
        since = later = look
    return since.at if since is not None else None


def _why_kept(item: ItemJson, at: datetime, known: Known, is_doubtful: bool) -> str:
    """Why nobody should remove it yet; "" where its removal can be proposed."""
    if known.siblings.unread:
        return f"it may be of environment `{known.siblings.unread[0]}`, whose state cannot be read here"
    if is_doubtful:
        return "a call of unknown outcome may have made it"
    if item.attached is None:
        return "the platform does not tell whether it is used"
    if item.attached:
        return "a machine holds it"
    if item.detached_since is None:
        return "no look has recorded since when it has no machine"
    if at - item.detached_since < _UNUSED:
        return f"it has had no machine for less than {_UNUSED.days} days, by our looks"
    return ""


def _removal(entry: Entry, item: ItemJson) -> Entry:
    """A manifest that adopts the object, so that an apply deletes it once the manifest leaves again."""
    said = (
        f"Proposed for removal: without a machine since {item.detached_since:%Y-%m-%d %H:%M} UTC.",
        "Apply this; then take the manifest out again: that plan deletes it, after a last snapshot.",
    )
    comments = {**entry.comments, (): (*entry.comments.get((), ()), *said)}
    return replace(entry, lifecycle={"deletion": Deletion.DELETE.value}, comments=comments)

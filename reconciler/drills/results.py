"""What restore drills found, as the state remembers it, and what that proves of each object."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.cron import first_after
from reconciler.core.diagnostics import (
    DRILL_FAILED,
    DRILL_OVERDUE,
    NOT_RECOVERABLE,
    RECOVERY_SLOWER,
    Diagnostic,
    error,
    warning,
)
from reconciler.core.model import Address, FieldChange, Impact, Resource, StateRecord
from reconciler.core.spans import parse_span
from reconciler.core.steps import Plan
from reconciler.core.words import in_words
from reconciler.drills.checks.model import Checked, Facts
from reconciler.execution.decisions import Actor, Content, Renewal, recall, remember
from reconciler.planning.declared import Desired
from reconciler.policies.drill import RestoreDrillSpec, declared_drills
from reconciler.state.store import State, Store

_NOTE = "drill:"  # begins the name of the note of each drill
_KEPT = 20  # results of one object


class Result(Struct, frozen=True, omit_defaults=True):
    """One drill of one object.

    `at`: when it began. `id`: of the object that it is about. `copy`: what was restored. `recovery_s`:
    seconds until the object was ready. `point`: the newest time of the data that was promised,
    `recovery_point` that was found; `lost_s`: how much older the data was than the platform's clock, in
    seconds. What is not known is None.
    """

    at: datetime
    passed: bool
    why: str = ""
    id: str = ""
    copy: str = ""
    recovery_s: float | None = None
    point: datetime | None = None
    recovery_point: datetime | None = None
    lost_s: float | None = None
    size_bytes: int | None = None
    checks: tuple[Checked, ...] = ()

    @property
    def looked(self) -> bool:
        """Whether it has seen the contents."""
        return any(check.name == "contents" and check.verdict == "passed" for check in self.checks)

    @property
    def shown(self) -> str:
        """It in words: how long the restore took, and up to how much of the newest data is lost."""
        took = in_words(self.recovery_s) if self.recovery_s is not None else "an unknown time"
        lost = f", up to {in_words(self.lost_s)} of data lost" if self.lost_s is not None else ""
        return f"took {took}{lost}"


class Proof(Struct, frozen=True):
    """What the drill `drill` proves of the object `of`. `results`: newest first.

    `since`: since when a drill could have run. `max_age`: the stricter one of what is declared and what was
    declared at the last drill. `declared`: None where no manifest asks for it any more. `facts`: what its
    next one is compared with.
    """

    drill: Address
    of: Address
    results: tuple[Result, ...]
    since: datetime
    max_age: timedelta
    declared: RestoreDrillSpec | None = None
    facts: Facts | None = None

    @property
    def newest(self) -> Result | None:
        return self.results[0] if self.results else None

    @property
    def good(self) -> Result | None:
        return _good(self.results)

    def due(self, now: datetime) -> bool:
        """Whether the schedule asks for a drill now."""
        if self.declared is None or self.declared.schedule is None:
            return False
        began = self.newest.at if self.newest is not None and self.newest.at <= now else self.since
        at = first_after(began, self.declared.schedule, UTC)
        return at is not None and at <= now

    def overdue(self, now: datetime) -> bool:
        """Whether the last good one is older than it may be, or dated later than now: a clock was wrong."""
        at = self.good.at if self.good is not None else min(self.since, now)
        return not at <= now <= at + self.max_age

    def missing(self, now: datetime) -> str:
        """Why nothing proves that the object could be brought back; "" where a drill does."""
        if self.newest is not None and not self.newest.passed:
            return f"its last drill failed: {self.newest.why}"
        if self.overdue(now):
            return f"its drill is overdue: {self.proven(now)}"
        return ""

    def proven(self, now: datetime) -> str:
        """The last good drill in words."""
        if self.good is None:
            return "no restore of it was ever proven"
        if self.good.at > now:
            return f"the last good drill is dated {self.good.at:%Y-%m-%d %H:%M} UTC, which is still to come"
        later = self.newest is not self.good and self.newest is not None and self.newest.passed
        ago, without = in_words((now - self.good.at).total_seconds()), "; later ones did not look inside"
        return f"last proven restore {ago} ago, {self.good.shown}{without if later else ''}"


def _good(results: Iterable[Result]) -> Result | None:
    """The last one that passed. Once one has looked inside, others prove less: the last that did."""
    passed = [result for result in results if result.passed]
    return next((result for result in passed if result.looked), passed[0] if passed else None)


class _Kept(Struct, frozen=True, omit_defaults=True):
    """What the state keeps of one object of a drill. `facts`: those of the last good one."""

    max_age: str
    results: tuple[Result, ...] = ()
    facts: Facts | None = None


async def remember_result(
    store: Store, actor: Actor, drill: Resource, of: Address, result: Result, facts: Facts | None = None
) -> None:
    """Keep `result` in the state: what a bundle of the journal shows, too. `facts`: of what was looked at."""

    def new(note: Content) -> Content:
        known = convert(note.get(str(of), {"max_age": ""}), _Kept)
        results = (result, *(one for one in known.results if one.id == result.id))
        good, kept = _good(results), results[:_KEPT]
        if good is not None and good not in kept:
            kept = (*kept[:-1], good)
        compared = facts if good is result else known.facts
        return {**note, str(of): to_builtins(_Kept(drill.spec.max_age, kept, compared))}

    await remember(store, actor, f"{_NOTE}{drill.address.name}", new)


def declared_notes(desired: Desired, state: State, *, whole: bool) -> Mapping[str, Renewal]:
    """What is to be kept of the drills that are declared: one that leaves with its object would gate nothing.

    `whole`: what is not declared any more is forgotten.
    """
    declared: dict[str, dict[str, Content]] = {}
    for drill, of in declared_drills(desired.policies, desired.resources):
        if of.address in state.records:
            known = declared.setdefault(f"{_NOTE}{drill.address.name}", {})
            known[str(of.address)] = to_builtins(_Kept(drill.spec.max_age))
    noted = [name for name in state.remembered if name.startswith(_NOTE)]
    return {name: partial(_declared, now=declared.get(name, {}), whole=whole) for name in (*declared, *noted)}


def _declared(note: Content, now: Mapping[str, Content], *, whole: bool) -> Content:
    return {**now, **{of: kept for of, kept in note.items() if not whole or of in now}}


def proofs(policies: Iterable[Resource], resources: Sequence[Resource], state: State) -> Sequence[Proof]:
    """What declared drills prove of each recorded object, and what remembered ones without a manifest do."""
    declared = {(drill.address, of.address): drill.spec for drill, of in declared_drills(policies, resources)}
    notes = [name for name in state.remembered if name.startswith(_NOTE)]
    ids = {(address.kind, record.id): address for address, record in state.records.items()} if notes else {}
    kept: dict[tuple[Address, Address], list[_Kept]] = {}
    for name in notes:
        for text, content in recall(state, name).items():
            of, known = Address.parse(text), convert(content, _Kept)
            # What has got another address since is still known by its id.
            at = next((ids[key] for old in known.results if (key := (of.kind, old.id)) in ids), of)
            kept.setdefault((Address("RestoreDrill", name.removeprefix(_NOTE)), at), []).append(known)
    return [
        _proof(drill, state.records[of], declared.get((drill, of)), kept.get((drill, of), ()))
        for drill, of in sorted({*declared, *kept}, key=str)
        if of in state.records
    ]


def _proof(name: Address, record: StateRecord, spec: RestoreDrillSpec | None, kept: Sequence[_Kept]) -> Proof:
    kept = sorted(kept, key=lambda each: [result.at for result in each.results[:1]], reverse=True)
    ages = [each.max_age for each in kept[:1]] + ([spec.max_age] if spec is not None else [])
    # Those of an older object at this address prove nothing.
    results = tuple(result for each in kept for result in each.results if result.id == record.id)
    good, max_age = _good(results), min(map(parse_span, ages))
    facts = next((each.facts for each in kept if good in each.results), None)
    return Proof(name, record.address, results, record.created_at, max_age, spec, facts)


def shown_drills(state: State, address: Address, now: datetime) -> Sequence[Mapping[str, Any]]:
    """What `show` says of the drills of one object: the last proof in words, and the results as JSON."""
    return [
        {"drill": proof.drill.name, "proven": proof.proven(now), "results": to_builtins(proof.results)}
        for proof in proofs((), (), state)
        if proof.of == address
    ]


def with_proofs(plan: Plan, proofs: Iterable[Proof], now: datetime) -> Plan:
    """`plan`, whose deletes say how much goes, and what a drill has proven of it."""
    if all(change.impact is not Impact.DATA_LOSS for change in plan.changes):
        return plan
    proven = {proof.of: f"; {proof.proven(now)}" for proof in proofs}
    sizes = {step.address: step.uses.get("gb_deleted") for step in plan.steps}
    return replace(
        plan,
        changes=tuple(
            replace(change, reason=f"{change.reason}; {gb} GB{proven.get(change.address, '')}")
            if change.impact is Impact.DATA_LOSS and (gb := sizes.get(change.address))
            else change
            for change in plan.changes
        ),
    )


def findings(proofs: Iterable[Proof], now: datetime) -> Iterator[Diagnostic]:
    """A warning for each drill that is overdue, has failed or took too long.

    Without a manifest, nobody asks for it any more.
    """
    for proof in proofs:
        if proof.declared is None:
            continue
        newest, good, run = proof.newest, proof.good, command("drill", proof.drill)
        whose, help = f"`{proof.of}`: the drill `{proof.drill.name}`", f"run `{run}`"
        if newest is not None and not newest.passed:
            message = f"{whose} failed: {newest.why}"
            yield warning(DRILL_FAILED, message, help=help, advice=(run,), about=(proof.of,))
        if proof.overdue(now):
            message = f"{whose} is overdue: {proof.proven(now)}"
            yield warning(DRILL_OVERDUE, message, help=help, advice=(run,), about=(proof.of,))
        within_s = parse_span(proof.declared.recover_within).total_seconds()
        took_s = good.recovery_s if good is not None else None
        if took_s is not None and took_s > within_s:
            yield warning(
                RECOVERY_SLOWER,
                f"{whose} took {in_words(took_s)}, but `recover_within` is {in_words(within_s)}",
                help="look at what has grown; or agree on a longer time with those who would wait for it",
                about=(proof.of,),
            )


def unproven(plan: Plan, proofs: Iterable[Proof]) -> Sequence[Proof]:
    """What is missing where `plan` deletes something, or protects it less from now on."""
    changed = {change.address for change in plan.changes if any(map(_lowers, change.fields))}
    gates, moved = changed.union(plan.deletes), {move.source: move.target for move in plan.moves}
    return [
        proof for proof in proofs if moved.get(proof.of, proof.of) in gates and proof.missing(plan.context.at)
    ]


def _lowers(field: FieldChange) -> bool:
    """Whether a change keeps fewer copies from now on."""
    if field.path == "auto_backup_enabled":
        return field.after is False
    return field.path == "snapshot_retention" and (field.before or 0) > (field.after or 0)


def not_recoverable(proof: Proof, now: datetime) -> Diagnostic:
    """The refusal of a change."""
    drill, plan = command("drill", proof.drill), command("plan", "--out", "FILE")
    approve = command("approve", "FILE", "--reason", "TEXT")
    first = "" if proof.declared is not None else f"declare `{proof.drill}` again; "
    return error(
        NOT_RECOVERABLE,
        f"`{proof.of}` could perhaps not be brought back: {proof.missing(now)}",
        help=f"{first}prove that it can be restored with `{drill}`; or let somebody sign exactly this plan: "
        f"`{plan}`, `{approve}`",
        advice=(drill, plan, approve),
        about=(proof.of,),
    )

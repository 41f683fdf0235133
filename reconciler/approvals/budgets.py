"""Judges a plan by budgets: what is over, what nobody can count, and what goes together with its copy. Pure.

One object is deleted, or grown by so much, only once, however often the call is sent.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.approvals.spent import Spent, Use
from reconciler.core.diagnostics import Diagnostic, as_warning, error
from reconciler.core.words import in_a_row
from reconciler.guardrails.limit import Limit, how_to_sign

_OF_OBJECTS = ("deletes", "gb_deleted", "gb_added")
_LATER = datetime.max.replace(tzinfo=UTC)
_SHOWN = 5  # uses that a message lists


class Finding(Struct, frozen=True):
    """A plan that a budget does not allow. `sign`: what people may override; "" for nothing."""

    problem: Diagnostic
    sign: str = ""

    def diagnostic(self, signed: Collection[str], *, asks: bool) -> Diagnostic:
        """`signed`: what counting approvals override. `asks`: a plan says what an apply asks for."""
        if not self.sign:
            return self.problem
        is_signed = self.sign in signed
        help, advice = how_to_sign(self.sign, signed=is_signed)
        problem = as_warning(self.problem) if is_signed or asks else self.problem
        return replace(problem, help=help, advice=advice)


def counting(uses: Iterable[Use], line: str) -> Sequence[Use]:
    """Those of `uses` that count on a line of a budget, the oldest first."""
    found: dict[tuple[Any, ...], Use] = {}
    for use in uses:
        if (amount := use.uses.get(line, 0)) != 0:
            by_object = line in _OF_OBJECTS and "creates" not in use.uses
            key = (use.path, amount, use.uses.get("to_gb")) if by_object else (use.run, use.step, use.scope)
            found[key] = max(found.get(key, use), use, key=_time)
    return sorted(found.values(), key=_time)


def _time(use: Use) -> datetime:
    return use.at or _LATER


def _sum(uses: Iterable[Use], line: str) -> int:
    return sum(use.uses[line] or 0 for use in uses)


def judge_budgets(
    limits: Sequence[Limit],
    own: Sequence[Use],
    spent: Spent,
    held: Collection[str],
    environment: str,
    now: datetime,
) -> Sequence[Finding]:
    """All that the budgets among `limits` say about `own`, the calls of a plan.

    `held`: as of `Spent.uses`.
    """
    runs = {use.run for use in own}
    uses = [use for use in spent.uses(held) if use.run not in runs]
    budgets = [
        limit for limit in limits if limit.kind == "Budget" and limit.spec.environment in (None, environment)
    ]
    found: list[Finding] = []
    for limit in budgets:
        earlier = _within(limit.spec.lasts, uses, now)
        lines = [line for line in limit.spec.lines if counting(own, line)]
        over = [*filter(None, (_over(limit, line, own, earlier) for line in lines))]
        gap = f"{spent.why}: nobody knows all that was sent in the last {limit.spec.window}"
        is_known = spent.since <= now - limit.spec.lasts
        found += over or _unknown(limit, lines, own, earlier, () if is_known else (gap,))
    if budgets:
        longest = max((limit.spec for limit in budgets), key=lambda spec: spec.lasts)
        found += _unprotected(longest.window, own, _within(longest.lasts, uses, now))
    return found


def _within(window: timedelta, uses: Sequence[Use], now: datetime) -> Sequence[Use]:
    return [use for use in uses if use.at is None or use.at > now - window]


def _over(limit: Limit, line: str, own: Sequence[Use], earlier: Sequence[Use]) -> Finding | None:
    """What a line of a budget refuses."""
    most, all_uses, new = limit.spec.lines[line], counting([*earlier, *own], line), counting(own, line)
    total = _sum(all_uses, line)
    if total <= most:
        return None
    mine = {(use.run, use.step) for use in new}
    used = [use for use in all_uses if (use.run, use.step) not in mine]
    listed = [f"used {use.uses[line] or 'an unknown amount'}: {use}" for use in used[: -_SHOWN - 1 : -1]]
    needs = in_a_row([f"{use.address} ({use.uses[line]})" for use in new[:_SHOWN]])
    left = f" and {len(new) - _SHOWN} more" if len(new) > _SHOWN else ""
    notes = (*listed, f"this plan: {needs}{left}")
    problem = error(
        "over-budget",
        f"`{limit}` allows `{line}: {most}` in {limit.spec.window}: {_sum(used, line)} used, and this plan "
        f"needs {total - _sum(used, line)}",
        notes=notes,
        help=f"{_free_again(limit, used, line, total - most)}; or change the budget in a change of its own",
        about=dict.fromkeys(use.address for use in new),
    )
    return Finding(problem)


def _free_again(limit: Limit, used: Sequence[Use], line: str, too_much: int) -> str:
    """When the oldest uses have left the window, so that enough is free."""
    for use in used:
        too_much -= use.uses[line] or 0
        if too_much <= 0:
            if use.at is not None:
                return f"enough is free again at {use.at + limit.spec.lasts:%Y-%m-%d %H:%M:%S} UTC"
            return f"enough is free again when run {use.run} has ended, or an apply in `{use.scope}` begins"
    return "split the plan: it alone needs more"


def _unknown(
    limit: Limit, lines: Sequence[str], own: Sequence[Use], earlier: Sequence[Use], gaps: Sequence[str]
) -> Iterator[Finding]:
    """What nobody can count on the `lines` that a plan uses. `gaps`: why not all calls are known."""
    unsized = ((line, use) for line in lines for use in (*own, *earlier) if use.uses.get(line, 0) is None)
    notes = [*gaps, *(f"`{line}` of {use.address} is not known ({use.step})" for line, use in unsized)]
    if lines and notes:
        named = in_a_row([f"`{line}`" for line in lines])
        message = f"`{limit}` limits {named}, and not all that counts is known"
        about = dict.fromkeys(use.address for line in lines for use in counting(own, line))
        yield Finding(error("budget-unknown", message, notes=(*notes[:_SHOWN],), about=about), limit.name)


def _unprotected(window: str, own: Sequence[Use], earlier: Sequence[Use]) -> Iterator[Finding]:
    """Objects that go together with a copy of theirs, or after less of them was kept."""
    uses, mine = [*earlier, *own], {(use.run, use.step) for use in own}
    deleted: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        for name in use.uses.get("names", ()) if "deletes" in use.uses else ():
            deleted[name].append(use)
    seen: set[str] = set()
    for use in uses:
        lowers = use.uses.get("lowers", ())
        names = use.uses.get("names" if lowers else "copy_of", ())
        for origin in (gone for name in names for gone in deleted[name]):
            word = sign_both(use, origin)
            if word in seen or mine.isdisjoint({(use.run, use.step), (origin.run, origin.step)}):
                continue
            seen.add(word)
            copy = f"`{origin.address}` and its copy `{use.address}` would both be deleted"
            lowered = f"`{origin.address}` would be deleted, and its {in_a_row(lowers)} be lowered before,"
            message = f"{lowered if lowers else copy} within {window}"
            both = (use, origin)
            notes = tuple(f"sent before: {each}" for each in both if (each.run, each.step) not in mine)
            about = (origin.address, use.address)
            yield Finding(error("unprotected-delete", message, notes=notes, about=about), word)


def sign_both(one: Use, other: Use) -> str:
    """The word by which an approval signs exactly these two calls."""
    both = "\n".join(sorted(f"{use.address} {use.path} {'deletes' in use.uses}" for use in (one, other)))
    return f"both-{sha256(both.encode()).hexdigest()[:12]}"

"""Judges the approvals that are given with a saved plan.

1. The rules in force that match the plan ask for approvals (`asked_of`, `needed_by`).
2. Each given approval is checked by itself: that it is about this plan, rehearsal, environment and state,
   that nobody used it before, that it has not ended, and that all files of signers let its key sign
   (`why_dead`).
3. The approvals that count are brought together by people, since one person may have several keys or names
   (`people`). A rule is met by as many different people as it names.
"""

import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from reconciler.approvals.in_force import InForce, Terms
from reconciler.approvals.rules import Needed, Rule, Said, Signers, needed
from reconciler.approvals.ssh import NAMESPACE, plain_key, signing_key, verifies
from reconciler.approvals.statement import Approval, parse_approval
from reconciler.core.advice import command
from reconciler.core.context import BASE
from reconciler.core.diagnostics import APPROVAL_NEEDED, Diagnostic, as_warning, error, warning
from reconciler.core.model import Address
from reconciler.core.spans import LONGEST
from reconciler.core.uses import SIZES
from reconciler.core.words import counted
from reconciler.guardrails.limit import Limit
from reconciler.project.files import read_file
from reconciler.project.project import Project

_CLOCKS = timedelta(minutes=5)  # so far may two machines' clocks be apart


class About(Struct, frozen=True):
    """The plan that an approval must be about, to count: its digest, its rehearsal's, and where it runs.

    `used`: the ids of approvals that runs have used.
    """

    plan: str
    rehearsal: str
    environment: str
    lineage: str
    used: Collection[str] = ()


def why_dead(
    approval: Approval, about: About, signers: Sequence[Signers], now: datetime, env: Mapping[str, str]
) -> str:
    """ "" for one that counts: by all `signers`. Raises ReconcilerError where ssh-keygen cannot be asked."""
    said = approval.statement
    if approval.id in about.used:
        return "it was used already: an approval counts once"
    if said.environment != about.environment:
        return f"it is for environment `{said.environment}`, not `{about.environment}`"
    if said.lineage != about.lineage:
        return "it is for another state"
    if said.plan != about.plan:
        return f"it is for another plan ({said.plan[:12]}, not {about.plan[:12]})"
    if said.rehearsal != about.rehearsal:
        return "it is for another rehearsal of this plan"
    reasons = (why_unsigned(approval, signer, now, env) for signer in signers)
    return why_late(approval, LONGEST, now) or next(filter(None, reasons), "")


def why_late(approval: Approval, lasts: timedelta, now: datetime) -> str:
    """ "" while it is in force: to the end that it names, and no longer than `lasts`."""
    said = approval.statement
    if said.at > now + _CLOCKS:
        return f"it was given at {said.at:%Y-%m-%d %H:%M} UTC, which is not yet: check both clocks"
    ends = min(said.expires, said.at + lasts)
    return f"it ended at {ends:%Y-%m-%d %H:%M} UTC" if now >= ends else ""


def why_unsigned(approval: Approval, signers: Signers, now: datetime, env: Mapping[str, str]) -> str:
    """ "" for a signature that its signer may have made. Raises ReconcilerError."""
    said = approval.statement
    problem = verifies(said.to_bytes(), approval.signature, said.principal, signers.text.encode(), now, env)
    if not problem:
        return ""
    if "incorrect signature" in problem:
        return "its signature is not of this statement: it was changed after it was signed"
    may_not = f"does not let `{said.principal}` sign for `{NAMESPACE}` with this key now"
    return f"{signers.where} {may_not} ({problem})"


def in_force(rule: Rule, approvals: Sequence[Approval], now: datetime) -> Sequence[Approval]:
    """The `approvals` that `rule` still takes at this time. All of them count in themselves."""
    return [approval for approval in approvals if not why_late(approval, rule.lasts, now)]


_QUOTED = re.compile(r'"(?:\\"|[^"])*"')
# As ssh-keygen takes a line apart: a quote ends the names, and not what comes behind them.
_NAMES = re.compile(r'[ \t]*([^ \t\r"]*(?:"[^"]*"|[ \t\r]|$))')
_WORD = re.compile(rf"(?:{_QUOTED.pattern}|[^ \t\r\"])+")


def people(approvals: Iterable[Approval], signers: Iterable[str]) -> Sequence[Collection[str]]:
    """The names of each person who gave any. `signers`: the files of allowed signers that count.

    One person are the names of one line, of one pattern and of one key, and all that these bring together.
    A line with `cert-authority` brings nobody together: the authority vouches for each key that it certified.
    """
    given = [
        (approval.statement.principal, plain_key(signing_key(approval.signature))) for approval in approvals
    ]
    lines = [line for text in signers for line in _lines(text)]
    signed = {name for name, _ in given}
    names = signed.union(*(patterns for patterns, _ in lines))
    of_key: dict[bytes, set[str]] = defaultdict(set)
    for name, key in given:
        of_key[key].add(name)
    for patterns, key in lines:
        of_key[key] |= {name for name in names if any(_matches(name, pattern) for pattern in patterns)}
    found: list[set[str]] = []
    for together in of_key.values():
        apart = [group for group in found if not group & together]
        found = [*apart, together.union(*(group for group in found if group & together))]
    return [sorted(group & signed) for group in found if group & signed]


def _matches(name: str, pattern: str) -> bool:
    """Whether a pattern of allowed_signers matches a name. `[` means itself there."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def _lines(text: str) -> Iterator[tuple[Sequence[str], bytes]]:
    """Patterns of names, and the key, of each line but those of authorities."""
    for line in text.split("\n"):
        names = _NAMES.match(line)
        words = _WORD.findall(line, names.end()) if names and not names[1].startswith("#") else ()
        keys = [(at, key) for at, pair in enumerate(pairwise(words)) if (key := _key(*pair)) is not None]
        if names and keys:
            options = _QUOTED.sub("", " ".join(words[: keys[0][0]])).lower().split(",")
            if "cert-authority" not in options:
                yield names[1].replace('"', "").strip(" \t\r").split(","), keys[0][1]


def _key(kind: str, base64: str) -> bytes | None:
    """The public key of a line, without its certificate; None for words that hold none."""
    try:
        key = b64decode(base64)
        return plain_key(key) if key[4:].startswith(kind.encode()) else None
    except ValueError:
        return None


_STEPS = (
    command("plan", "--rehearse", "--out", "FILE"),
    command("approve", "FILE", "--reason", "TEXT"),
    command("apply", "--plan", "FILE", "--approval", "FILE.NAME.approval"),
)


class Given(Struct, frozen=True):
    """The approvals that a person gives with a saved plan.

    `rehearsal`: the digest of the one in the file; "" for none.

    `plan`: the digest of the plan in the file; "" where there is no file. `now`: the addresses that are to
    wait for no window, if an approval names them.
    """

    approvals: tuple[Approval, ...] = ()
    rehearsal: str = ""
    plan: str = ""
    now: tuple[str, ...] = ()


NOTHING = Given()


class Judged(Struct, frozen=True):
    """`problems`: what keeps the plan from running; else what of the given ones did not count.

    `budgets`: those in force.
    """

    counting: tuple[Approval, ...]
    problems: tuple[Diagnostic, ...]
    budgets: tuple[Limit, ...] = ()

    @property
    def overridden(self) -> set[str]:
        """The guardrails and addresses that the counting approvals name."""
        return {name for approval in self.counting for name in approval.statement.overridden}


def read_approvals(files: Sequence[Path]) -> tuple[Approval, ...]:
    """Raises ReconcilerError for a file that holds none."""
    found = {}
    for file in files:
        approval = parse_approval(read_file(file), str(file))
        found[approval.id] = approval  # the same one twice is one
    return tuple(found.values())


async def judge(project: Project, terms: Terms, given: Given) -> Judged:
    """The given approvals that count, and an error for each rule that asks for more of them."""
    found, asked = _asked(terms)
    budgets = budgets_in(found.said)
    limits = _against_limits(terms, found, await spent_on(project, budgets))
    if not asked and not given.approvals:
        return Judged((), (*found.warnings(), *_diagnostics(limits)), budgets)
    signers = found.said.signers
    if unnamed := [signer.where for signer in signers if not signer.text]:
        why = f"{unnamed[0]} names nobody"
        nobody = tuple(_nobody(needed, why) for needed in asked) or (_unknown(why),)
        return Judged((), (*nobody, *_diagnostics(limits)))
    environment = project.environment or BASE
    used = terms.state.plans_run
    about = About(given.plan, given.rehearsal, environment, terms.state.lineage, used)
    now, counting, dead = project.clock.now(), [], []
    for approval in given.approvals:
        arguments = (approval, about, signers, now, project.variables)
        why = await to_thread.run_sync(why_dead, *arguments)
        if why:
            dead.append((approval, why))
        else:
            counting.append(approval)
    agreed = [
        (needed, people(in_force(needed.rule, counting, now), [signer.text for signer in signers]))
        for needed in asked
    ]
    unmet = [_unmet(needed, by) for needed, by in agreed if len(by) < needed.rule.people]
    again = not terms.plan.steps and all(approval.id in used for approval, _ in dead)  # the job is run again
    report = error if unmet or not (counting or again) else warning
    objects = dict.fromkeys(address for needed in asked for address in needed.addresses)
    not_counting = [_dead(report, approval, why, objects) for approval, why in dead]
    judged = Judged(tuple(counting), (), budgets)
    against = _diagnostics(limits, judged.overridden)
    return replace(judged, problems=(*found.warnings(), *unmet, *not_counting, *against))


def budgets_in(said: Said) -> tuple[Limit, ...]:
    """The budgets among the rules."""
    return tuple(limit for limit in said.limits if limit.kind == "Budget")


async def spent_on(project: Project, budgets: Sequence[Limit]) -> Any:
    """What `budgets` count before a plan; None without budgets."""
    if not budgets:
        return None
    from reconciler.approvals.spent import read_spent  # few projects have budgets

    return await read_spent(project, budgets)


def asked_of(terms: Terms, spent: Any = None) -> list[Diagnostic]:
    """What an apply of the plan will say: approvals that it asks for, guardrails, rules that get weaker.

    `spent`: as of `spent_on`.
    """
    found, asked = _asked(terms)
    limits = _against_limits(terms, found, spent)
    return [
        *found.warnings(),
        *(_needed(warning, needed) for needed in asked),
        *_diagnostics(limits, asks=True),
    ]


def _diagnostics(
    findings: Sequence[Any], signed: Collection[str] = (), *, asks: bool = False
) -> Sequence[Diagnostic]:
    """`findings`, for people. `signed`: what counting approvals override. `asks`: nobody could sign yet."""
    return [finding.diagnostic(signed, asks=asks) for finding in findings]


def of_resources(terms: Terms) -> Sequence[Diagnostic]:
    """What guardrails say about all declared resources, as warnings: drift sends nothing that they refuse."""
    found = terms.in_force()
    judged = [limit for limit in found.said.limits if getattr(limit.spec, "judges", "") == "resources"]
    limits = _against_limits(terms, InForce(Said(tuple(judged)), ()))
    return list(map(as_warning, _diagnostics(limits)))


def _against_limits(terms: Terms, found: InForce, spent: Any = None) -> Sequence[Any]:
    """What guardrails, and with `spent` also budgets, find about a plan."""
    limits = found.said.limits
    if not limits:
        return ()
    from reconciler.guardrails.rules import judge_rules  # few projects have guardrails

    plan = terms.plan.without(terms.scratch.intersection(terms.plan.deletes))
    judged = judge_rules(limits, plan, terms.resources, terms.state.records)
    if spent is None:
        return judged.findings
    from reconciler.approvals.budgets import judge_budgets
    from reconciler.approvals.spent import uses_of_plan

    context = plan.context
    own, held = uses_of_plan(plan), terms.scopes  # a run of the plan will hold those that it needs
    over = judge_budgets(limits, own, spent, held, context.environment, context.at)
    return [*judged.findings, *over]


def needed_by(terms: Terms) -> Sequence[Needed]:
    """The rules that an apply under these terms asks about."""
    return _asked(terms)[1]


def _asked(terms: Terms) -> tuple[InForce, Sequence[Needed]]:
    """The rules in force, and those of them that the plan must be approved by."""
    found = terms.in_force()
    plan = terms.plan if terms.by_agent else terms.plan.without(terms.scratch)
    authority = terms.authority
    rules, environment = found.said.approvals, plan.context.environment
    return found, needed(rules, plan, environment, _Sizes(terms), authority.variables)


class _Sizes:
    """The largest size in GB that anything says of an address; None where nothing does."""

    def __init__(self, terms: Terms) -> None:
        self._state, self._resources = terms.state, terms.resources
        self._said: dict[Address, list[Any]] = defaultdict(list)
        for change in terms.plan.changes:
            for field in change.fields:
                if field.path in SIZES:
                    self._said[change.address] += field.before, field.after

    def __call__(self, address: Address) -> float | None:
        said = [*self._said.get(address, ())]
        record, resource = self._state.records.get(address), self._resources.get(address)
        for name in SIZES:
            said += [record.applied.get(name)] if record is not None else []
            said += [getattr(resource.spec, name, None)] if resource is not None else []
        return max((size for size in said if isinstance(size, int | float)), default=None)


def _unmet(asked: Needed, by: Sequence[Collection[str]]) -> Diagnostic:
    """`by`: the names of each person who approved."""
    whom = f"{len(by)} of {asked.rule.people} people" if by else "nobody"
    several = [" and ".join(f"`{name}`" for name in names) for names in by if len(names) > 1]
    return _needed(
        error, asked, "; ".join([f": {whom} approved it", *(f"{names} are one person" for names in several)])
    )


def _nobody(asked: Needed, why: str) -> Diagnostic:
    """The error for a rule that nobody can satisfy, since no signer is known."""
    return _needed(
        error,
        asked,
        f": nobody is known who may approve: {why}",
        "name them in a change of its own, and apply that first; then ",
    )


def _needed(report: Any, asked: Needed, why: str = "", first: str = "") -> Diagnostic:
    """The problem of a rule that asks for approvals, with the commands that give them."""
    listed = [f"`{address}`" for address in asked.addresses[:3]]
    more = len(asked.addresses) - len(listed)
    what = ", ".join(listed) + (f" and {more} more" if more else "")
    people = (
        counted(asked.rule.people, "person")
        if asked.rule.people == 1
        else f"{asked.rule.people} different people"
    )
    typed = "`, `".join(map(str, _STEPS))
    found: Diagnostic = report(
        APPROVAL_NEEDED,
        f"{asked.rule.described} asks for the approval of {people} for {what}{why}",
        help=f"{first}type `{typed}`",
        advice=_STEPS,
        about=asked.addresses,
    )
    return found


def _unknown(why: str) -> Diagnostic:
    """The error for approvals of a plan whose signers nobody knows."""
    return error(
        "approval-dead",
        f"no approval counts: {why}",
        help="name signers in a change of its own, and apply that first; or set RECONCILE_ALLOWED_SIGNERS",
    )


def _dead(report: Any, approval: Approval, why: str, about: Iterable[Address]) -> Diagnostic:
    """The problem of an approval that does not count."""
    anew = command("approve", "FILE", "--reason", "TEXT")
    found: Diagnostic = report(
        "approval-dead",
        f"the approval {approval.name} of `{approval.statement.principal}` does not count: {why}",
        help=f"if the plan is right, approve it again: `{anew}`",
        advice=(anew,),
        about=about,
    )
    return found

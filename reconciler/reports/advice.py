"""What a run found, with the run's options in the commands that its texts advise."""

from collections.abc import Iterable

from msgspec.structs import replace

from reconciler.core.advice import Command, RunOptions, spell
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Change, Owed
from reconciler.core.steps import Plan


def advise(diagnostics: Iterable[Diagnostic], run: RunOptions) -> tuple[Diagnostic, ...]:
    """`diagnostics`, whose commands act on what the run was about."""
    return tuple(_diagnostic(each, run) if each.advice else each for each in diagnostics)


def advise_plan(plan: Plan, run: RunOptions) -> Plan:
    """`plan`, whose commands act on what the run was about. Meant to be shown, not to be saved."""
    return replace(
        plan,
        changes=tuple(_change(each, run) if each.advice else each for each in plan.changes),
        owed=advise_owed(plan.owed, run),
        diagnostics=advise(plan.diagnostics, run),
    )


def advise_owed(owed: Iterable[Owed], run: RunOptions) -> tuple[Owed, ...]:
    return tuple(replace(each, advice=_with_options(each.advice, run)) for each in owed)


def _diagnostic(item: Diagnostic, run: RunOptions) -> Diagnostic:
    return replace(
        item,
        message=spell(item.message, item.advice, run),
        notes=tuple(spell(note, item.advice, run) for note in item.notes),
        help=spell(item.help, item.advice, run),
        advice=_with_options(item.advice, run),
    )


def _change(change: Change, run: RunOptions) -> Change:
    reason = spell(change.reason, change.advice, run)
    return replace(change, reason=reason, advice=_with_options(change.advice, run))


def _with_options(advice: Iterable[Command], run: RunOptions) -> tuple[Command, ...]:
    return tuple(each.with_options(run) for each in advice)

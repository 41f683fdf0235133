"""From failures to messages on stderr, reports and exit codes."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from reconciler.cli.main import USAGE
from reconciler.cli.options import of_this_run, refuse_contradictions, refuse_empty_options
from reconciler.cli.output import emit, lost
from reconciler.cli.signals import Interrupted, signalled
from reconciler.core.advice import spell
from reconciler.core.diagnostics import UNKNOWN_OUTCOME, Diagnostic
from reconciler.core.errors import Diagnosed, Locked, Misused, ReconcilerError
from reconciler.reports.report import Failure
from reconciler.reports.visible import visible_lines

DONE, FAILED, CHANGES, DECIDE, PENDING, LOCKED = 0, 1, 2, 3, 4, 5
FIRST_OF_SIGNALS = 129


def first_of(*codes: int) -> int:
    """The exit code that wins when several apply. Source: DESIGN, section 3."""
    return next((code for code in (LOCKED, DECIDE, USAGE, FAILED, PENDING, CHANGES) if code in codes), DONE)


def code_of(diagnostics: Sequence[Diagnostic], otherwise: int) -> int:
    return DECIDE if any(item.code == UNKNOWN_OUTCOME for item in diagnostics) else otherwise


def reports_failures(function: Callable[..., int]) -> Callable[..., int]:
    """Wrap a verb: known failures become messages, and reports in the formats that were asked for."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        context = click.get_current_context(silent=True)
        if context is not None:
            refuse_empty_options(context)
            refuse_contradictions(context)
        try:
            code = function(*args, **kwargs)
        except ReconcilerError as failure:
            code = report_failure(failure)
        except Interrupted as interrupted:
            code = report_interrupted(interrupted, "interrupted")
        code = signalled(code)
        return first_of(code, FAILED) if lost() and code < FIRST_OF_SIGNALS else code

    return wrapped


def report_interrupted(interrupted: Interrupted, message: str) -> int:
    """Say that a signal ended a verb; returns its exit code."""
    emit(Failure(message=message, interrupted=True))
    click.echo(message, err=True)
    return interrupted.code


def report_failure(failure: ReconcilerError) -> int:
    """Say what failed; returns the exit code."""
    diagnostics = failure.diagnostics if isinstance(failure, Diagnosed) else ()
    emit(Failure(diagnostics=diagnostics, message=failure.message, help=failure.help, advice=failure.advice))
    echo_error(failure)
    if isinstance(failure, Locked):
        return LOCKED
    if isinstance(failure, Misused):
        return USAGE
    return code_of(diagnostics, FAILED)


def echo_error(failure: ReconcilerError) -> None:
    """What failed and the way out, on stderr."""
    run = of_this_run()
    click.echo(f"error: {visible_lines(spell(failure.message, failure.advice, run))}", err=True)
    if failure.help:
        click.echo(f"  = help: {visible_lines(spell(failure.help, failure.advice, run))}", err=True)

"""From failures to messages on stderr (or one JSON document on stdout) and exit codes."""

import json
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from reconciler.cli.options import of_this_run, refuse_empty_options
from reconciler.cli.signals import Interrupted
from reconciler.cli.sources import texts_here
from reconciler.core.advice import spell
from reconciler.core.diagnostics import UNKNOWN_OUTCOME, Diagnostic, error
from reconciler.core.errors import Locked, ManifestError, ReconcilerError, Refused
from reconciler.reports.advice import advise
from reconciler.reports.diagnostics import pointer, render
from reconciler.reports.documents import failure_document
from reconciler.reports.visible import visible_lines

DONE, FAILED, CHANGES, DECIDE, PENDING, LOCKED = 0, 1, 2, 3, 4, 5


def first_of(*codes: int) -> int:
    """The exit code that wins when several apply. Source: DESIGN, section 3."""
    return next((code for code in (LOCKED, DECIDE, FAILED, PENDING, CHANGES) if code in codes), DONE)


def echo_json(document: Any) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=2, default=str)
    # A file's name may be no text; half a surrogate pair is written as JSON escapes it.
    click.echo(text.encode("utf-8", "backslashreplace").decode())


def echo_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    if diagnostics:
        click.echo(render(advise(diagnostics, of_this_run()), texts_here().line), err=True, nl=False)
        if sys.stderr.isatty():
            click.echo(f"\n{pointer(diagnostics)}", err=True, nl=False)


def code_of(diagnostics: Sequence[Diagnostic], otherwise: int) -> int:
    return DECIDE if any(item.code == UNKNOWN_OUTCOME for item in diagnostics) else otherwise


def reports_failures(function: Callable[..., int]) -> Callable[..., int]:
    """Wrap a verb: known failures become messages. With `--output json`, stdout still gets one document."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        context = click.get_current_context(silent=True)
        if context is not None:
            refuse_empty_options(context)
        try:
            return function(*args, **kwargs)
        except ReconcilerError as failure:
            return report_failure(failure, as_json=kwargs.get("output") == "json")
        except Interrupted as interrupted:
            return report_interrupted(interrupted, "interrupted", as_json=kwargs.get("output") == "json")

    return wrapped


def report_interrupted(interrupted: Interrupted, told: str, *, as_json: bool) -> int:
    """Tell that a signal ended a verb; returns its exit code."""
    if as_json:
        echo_json(failure_document(told, [error("interrupted", told)]))
    click.echo(told, err=True)
    return interrupted.code


def report_failure(failure: ReconcilerError, *, as_json: bool) -> int:
    """Tell of `failure`; returns the exit code."""
    run = of_this_run()
    diagnostics = failure.diagnostics if isinstance(failure, ManifestError | Refused) else ()
    if as_json:
        told = diagnostics or (error("failed", failure.message, help=failure.help, advice=failure.advice),)
        echo_json(failure_document(failure.message, advise(told, run)))
    else:
        echo_diagnostics(diagnostics)
    click.echo(f"error: {visible_lines(spell(failure.message, failure.advice, run))}", err=True)
    if failure.help:
        click.echo(f"  = help: {visible_lines(spell(failure.help, failure.advice, run))}", err=True)
    if isinstance(failure, Locked):
        return LOCKED
    return code_of(diagnostics, FAILED)

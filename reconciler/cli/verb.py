"""Makes a function a verb: adds the shared options, and turns its end into messages and an exit code."""

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple

import click

from reconciler.cli.command_line import command_line, of_this_run
from reconciler.cli.group import OUTPUT, Shared
from reconciler.cli.main import USAGE
from reconciler.cli.options import refuse_contradictions
from reconciler.cli.output import REPORT, emit
from reconciler.cli.signals import Interrupted, signalled
from reconciler.core.advice import spell
from reconciler.core.diagnostics import UNKNOWN_OUTCOME, Diagnostic
from reconciler.core.errors import Diagnosed, Locked, Misused, ReconcilerError
from reconciler.core.tracing import span, traced
from reconciler.reports.escape import visible_lines
from reconciler.reports.report import Failure

DONE, FAILED, CHANGES, DECIDE, PENDING, LOCKED = 0, 1, 2, 3, 4, 5
FIRST_OF_SIGNALS = 129


class VerbCommand(click.Command):
    """A command with some of the options that verbs share. `report`: the kind of report that it prints."""

    shared: Sequence[click.Parameter] = ()
    report = ""

    def invoke(self, ctx: click.Context) -> Any:
        with traced(os.environ, _warn), span(ctx.command_path) as note:
            code = super().invoke(ctx)
            note("process.exit.code", code)
        return code

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The verb's own parameters, those that it shares, and --help."""
        *own, help = super().get_params(ctx)
        return [*own, *self.shared, help]


class Declared(NamedTuple):
    """An option or argument of a verb, as the default of the function's parameter that gets its value."""

    made: Callable[[str], click.Parameter]


def option(name: str, help: str | None = None, **settings: Any) -> Any:
    """An option such as `--out`. `settings`: those of click.Option."""
    return Declared(lambda parameter: click.Option([name, parameter], help=help, **settings))


def flag(name: str, help: str | None = None, **settings: Any) -> Any:
    """An option without a value: its parameter is a bool."""
    return option(name, help, is_flag=True, **settings)


def argument(**settings: Any) -> Any:
    """A positional argument. `settings`: those of click.Argument."""
    return Declared(lambda parameter: click.Argument([parameter], **settings))


def verb(
    name: str,
    *shared: click.Parameter,
    of: click.Group | None = None,
    report: str | None = "page",
    notifies: bool = False,
    by_people: bool = False,
    **settings: Any,
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Make a function the command `name`, in the group `of` where it has one.

    It returns an exit code; None is DONE. Its own options and arguments are the defaults of its parameters:
    `option`, `flag`, `argument`. Those that it passes on as a whole (`**settings`) are declared with click's
    decorators.

    `shared`: options of several verbs. A function with a parameter `chosen` gets what they say as one object
    of that parameter's class, ChosenManifests or ChosenState, which has options of its own. `report`: the
    kind of report that it prints, in the formats of -o; None for a verb without -o. `notifies`: the receivers
    in the settings get its end. `by_people`: the verb is refused in a run of an agent.
    """

    def make(function: Callable[..., int | None]) -> click.Command:
        chosen_type = function.__annotations__.get("chosen")

        @wraps(function)
        def run(**given: Any) -> int:
            if chosen_type is not None:
                said = {
                    field.name: given.pop(field.name) for field in fields(chosen_type) if field.name in given
                }
                given["chosen"] = chosen_type(**said)
            refuse_contradictions(click.get_current_context())
            try:
                if by_people:
                    given["chosen"].require_person(click.get_current_context().command_path)
                code = function(**given) or DONE
            except ReconcilerError as failure:
                code = report_failure(failure)
            except Interrupted as interrupted:
                code = report_interrupted(interrupted, "interrupted")
            code = signalled(code)
            if command_line().lost and code < FIRST_OF_SIGNALS:
                code = first_of(code, FAILED)
            if notifies:
                _notify(code)
            return code

        command: VerbCommand = click.command(name, cls=VerbCommand, **settings)(run)
        command.params += [
            parameter.default.made(parameter.name)
            for parameter in signature(function).parameters.values()
            if isinstance(parameter.default, Declared)
        ]
        command.params += [item for item in shared if not isinstance(item, Shared)]
        command.params += [REPORT] if report not in (None, "page", "graph") else []
        command.shared = [item for item in shared if isinstance(item, Shared)]
        command.shared += [*(chosen_type.OPTIONS if chosen_type else ()), *([OUTPUT] if report else ())]
        command.report = report or ""
        if of is not None:
            of.add_command(command)
        return command

    return make


def first_of(*codes: int) -> int:
    """The exit code that wins when several apply. Source: DESIGN, section 3."""
    return next((code for code in (LOCKED, DECIDE, USAGE, FAILED, PENDING, CHANGES) if code in codes), DONE)


def code_of(diagnostics: Sequence[Diagnostic], otherwise: int) -> int:
    """DECIDE where a call has an unknown outcome, which only a person can settle; else `otherwise`."""
    return DECIDE if any(item.code == UNKNOWN_OUTCOME for item in diagnostics) else otherwise


def report_interrupted(interrupted: Interrupted, message: str) -> int:
    """Print that a signal ended a verb; returns its exit code."""
    emit(Failure(message=message, interrupted=True))
    click.echo(message, err=True)
    return interrupted.code


def report_failure(failure: ReconcilerError) -> int:
    """Print a failure in the format of -o and on stderr; returns the exit code."""
    diagnostics = failure.diagnostics if isinstance(failure, Diagnosed) else ()
    emit(Failure(diagnostics=diagnostics, message=failure.message, help=failure.help, advice=failure.advice))
    echo_error(failure)
    if isinstance(failure, Locked):
        return LOCKED
    if isinstance(failure, Misused):
        return USAGE
    return code_of(diagnostics, FAILED)


def echo_error(failure: ReconcilerError) -> None:
    """Print a failure and its help on stderr, with this run's options in the advised commands."""
    run = of_this_run()
    click.echo(f"error: {visible_lines(spell(failure.message, failure.advice, run))}", err=True)
    if failure.help:
        click.echo(f"  = help: {visible_lines(spell(failure.help, failure.advice, run))}", err=True)


def _notify(code: int) -> None:
    """Send the events of the report to their receivers. A lost message does not change the exit code."""
    context, line = click.get_current_context(), command_line()
    config, report = line.settings, line.report
    # Nobody needs to hear of the embedded sandbox.
    if context.params.get("sandbox") or code >= FIRST_OF_SIGNALS or report is None:
        return
    if config is None or not config.settings.notify:
        return
    from reconciler.cli.event_loop import run  # few projects have receivers
    from reconciler.core.clock import SystemClock
    from reconciler.notify.delivery import send_all
    from reconciler.notify.events import events_of, run_of

    clock = SystemClock()
    events = events_of(report, run_of(config, context.info_name or "", code, clock.now()))
    try:
        if events:
            run(lambda: send_all(events, config, clock, _warn))
    except Interrupted:
        _warn("interrupted; not everybody may have been notified")
    except Exception as failure:  # a defect must not hide how the run ended; its text may hold an address
        _warn(f"notifications failed: {type(failure).__name__}")


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)

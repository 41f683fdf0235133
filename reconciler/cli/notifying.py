"""Notifies the receivers in `notify` of reconcile.yaml of the end of a verb, after its report."""

import click

from reconciler.cli.command_line import command_line
from reconciler.cli.event_loop import run
from reconciler.cli.signals import Interrupted
from reconciler.cli.verb import FIRST_OF_SIGNALS
from reconciler.core.clock import SystemClock
from reconciler.core.context import BASE
from reconciler.project.attribution import attribution_of
from reconciler.project.settings import ProjectSettings
from reconciler.reports.report import Report


def notify(code: int) -> int:
    """Notify of the end of the verb. Returns its exit `code`, whatever happens to the messages."""
    context, line = click.get_current_context(), command_line()
    # Nobody needs to hear of the embedded sandbox.
    if context.params.get("sandbox") or code >= FIRST_OF_SIGNALS:
        return code
    if line.settings is not None and line.report is not None and line.settings.settings.notify:
        _notify(line.report, line.settings, context.info_name or "", code)
    return code


def _notify(report: Report, config: ProjectSettings, verb: str, code: int) -> None:
    from reconciler.notify.delivery import send_all
    from reconciler.notify.events import Run, events_of

    clock, who = SystemClock(), attribution_of(config)
    platform = config.settings.platform.base_url or ""
    ended = Run(verb, config.env or BASE, platform, code, who.actor, who.url, clock.now())
    events = events_of(report, ended)
    if not events:
        return
    try:
        run(lambda: send_all(events, config, clock, _warn))
    except Interrupted:
        _warn("interrupted; not everybody may have been notified")
    except (
        Exception
    ) as failure:  # a defect here must not hide how the run ended; its text may hold an address
        _warn(f"notifications failed: {type(failure).__name__}")


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)

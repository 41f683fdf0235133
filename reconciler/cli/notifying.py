"""Who is told how a verb ended, after its report: as `notify` of reconcile.yaml says."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from reconciler.cli.context import REPORT, SETTINGS
from reconciler.cli.failures import FIRST_OF_SIGNALS
from reconciler.cli.signals import Interrupted, run
from reconciler.core.clock import SystemClock
from reconciler.core.context import BASE
from reconciler.pipeline.attribution import attribution_of
from reconciler.pipeline.settings import ProjectSettings
from reconciler.reports.report import Report


def notifies(function: Callable[..., int]) -> Callable[..., int]:
    """Wrap a verb that `reports_failures`: its exit code stays as it is, whatever becomes of the messages."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        code = function(*args, **kwargs)
        context = click.get_current_context()
        config: ProjectSettings | None = context.meta.get(SETTINGS)
        report: Report | None = context.meta.get(REPORT)
        # What happens in the embedded sandbox is nobody's concern.
        if config is None or report is None or context.params.get("sandbox") or code >= FIRST_OF_SIGNALS:
            return code
        if config.settings.notify:
            _notify(report, config, context.info_name or "", code)
        return code

    return wrapped


def _notify(report: Report, config: ProjectSettings, verb: str, code: int) -> None:
    from reconciler.notify.events import Run, events_of
    from reconciler.notify.send import send_all

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

"""`reconcile controller`: runs by itself, and takes what people say to it."""

import os
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click
import structlog
from anyio import to_thread

from reconciler.cli import options
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import settings_here
from reconciler.cli.event_loop import serve
from reconciler.cli.group import SANDBOX, STATE, Group
from reconciler.cli.output import emit
from reconciler.cli.progress import LogReporter, log_to_stderr
from reconciler.cli.verb import DONE, FAILED, argument, flag, option, verb
from reconciler.controller import memory
from reconciler.controller.loop import Controller, Door, Loaded
from reconciler.controller.source import Source
from reconciler.controller.status import ScopeStatus, Status, in_words, scopes_of
from reconciler.core.clock import SystemClock
from reconciler.core.errors import ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.core.listening import listening_at
from reconciler.core.reporter import Reporter
from reconciler.core.state_url import is_shared
from reconciler.core.words import did_you_mean
from reconciler.notify.delivery import beat, send_all
from reconciler.project.desired import load_desired
from reconciler.project.embedded import embedded_sandbox
from reconciler.project.files import SourceTexts
from reconciler.project.secret import secret_sources
from reconciler.project.settings import ProjectSettings, find_settings
from reconciler.project.store import require_private
from reconciler.reports.escape import page_text
from reconciler.reports.report import Page
from reconciler.services.transport import is_loopback
from reconciler.state.store import WHOLE_STATE

_RUN = "run"


class _Controller(Group):
    """Without a verb, it runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = any(word in self.commands for word in args)
        if not named and not set(ctx.help_option_names).intersection(args):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


@click.group("controller", cls=_Controller)
def controller() -> None:
    """Look at every scope on a schedule, send what is allowed, propose the rest.

    The section `controller` of reconcile.yaml says how often, and what may be sent. Without a verb, it runs.
    """


@verb(_RUN, STATE, SANDBOX, of=controller, report=None)
def run(
    state_url: str | None,
    sandbox: bool,
    environments: Sequence[str] = option(
        "--env", "Only this environment; may be repeated.", multiple=True, envvar="RECONCILE_ENV"
    ),
    once: bool = flag("--once", "Look at each scope once, act on it, and end."),
    out: Path | None = option(
        "--out",
        "Folder of proposals, with one below it for each environment.",
        type=click.Path(file_okay=False, path_type=Path),
    ),
    listen: str = option("--listen", "Serve a page, metrics, hooks here.", metavar="HOST:PORT", default=""),
    token_from: str = option(
        "--token-from", "Variable with the token that callers of --listen bear.", default=""
    ),
    worker: bool = flag("--worker", "Share the scopes with all other workers of the same state."),
) -> int:
    """Run until a signal ends it: with exit code 0, once calls under way have ended.

    With --once, the exit code is 1 where a scope could not be looked at.
    """
    log_to_stderr(debug=False)
    with ExitStack() as running:
        serving = _serving(listen, token_from, running) if listen else None
        doors = [
            _door(name, state_url, out, running, sandbox=sandbox, shares=worker)
            for name in environments or ("",)
        ]
        return serve(partial(_run_all, doors, once, serving))


Serving = Callable[[Sequence[Controller]], Coroutine[Any, Any, None]]


async def _run_all(doors: Sequence[Door], once: bool, serving: Serving | None, stopped: anyio.Event) -> int:
    controllers = [Controller(door, stopped) for door in doors]
    async with anyio.create_task_group() as beside:
        if serving is not None:
            beside.start_soon(serving, controllers)
        async with anyio.create_task_group() as tasks:
            for each in controllers:
                tasks.start_soon(partial(each.run, once=once))
        beside.cancel_scope.cancel()
    unseen = any(each.statuses.is_blind for each in controllers)
    return FAILED if once and unseen and not stopped.is_set() else DONE


def _serving(listen: str, token_from: str, running: ExitStack) -> Serving:
    """Serves the pages at `listen` until it is cancelled. Raises ReconcilerError and UsageError."""
    require_extra("controller", "--listen")
    from reconciler.controller import hooks, web  # need the extra

    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise click.UsageError("--listen: expected HOST:PORT, such as 127.0.0.1:8300")
    token = os.environ.get(token_from, "") if token_from else ""
    if token_from and not token:
        raise ReconcilerError(f"no token: the environment variable `{token_from}` is not set")
    if not token and not is_loopback(f"http://{listen}"):
        raise ReconcilerError(
            f"everybody who reaches {listen} could read what the controller knows",
            help="pass --token-from VARIABLE, or listen on 127.0.0.1 behind a proxy that asks who it is",
        )
    listener, url = running.enter_context(listening_at(host.strip("[]"), int(port)))
    structlog.get_logger("reconciler.controller").info("listening", url=url)

    async def serve_pages(controllers: Sequence[Controller]) -> None:
        heard, runs = hooks.routes(controllers), [each.runs for each in controllers]
        app = web.application(lambda: [each.statuses.view for each in controllers], token, heard, runs)
        await web.serve(listener, app)

    return serve_pages


def _door(
    environment: str,
    state_url: str | None,
    out: Path | None,
    running: ExitStack,
    *,
    sandbox: bool,
    shares: bool = False,
) -> Door:
    """Raises ReconcilerError for bad settings. The embedded sandbox runs until `running` ends."""
    log = structlog.get_logger("reconciler.controller").bind(environment=environment or None)
    here = settings_here(environment, sandbox=sandbox)
    if sandbox:
        require_private(here.root, here.private)
        running.enter_context(embedded_sandbox(here.private / "sandbox.db"))
    folder = here.private / "controller"
    follows = here.settings.controller.source is not None and not sandbox
    source = Source(here, folder / "source") if follows else None

    async def load() -> Loaded:
        root = await source.root() if source is not None else None
        try:
            return await to_thread.run_sync(read, root)
        except OSError as failure:  # such as of a folder that is gone
            raise ReconcilerError(f"the manifests cannot be read: {failure}") from failure

    def read(root: Path | None) -> Loaded:
        config, url = settings_here(environment, sandbox=sandbox), state_url
        if root is not None:
            config = find_settings(root, os.environ, environment)
            url = url or _beside(here, config)
        desired = load_desired((), config, SourceTexts(config.root), Reporter())
        sources = secret_sources(config, desired.policies, take_signals=False, runs_programs=True, ours=True)
        return Loaded(config, desired, sources, url)

    async def fetch(accepted: str) -> str:
        return await source.fetch(accepted) if source is not None else ""

    clock, warn = SystemClock(), partial(log.warning, "message.lost")
    proposals = out / here.env if out is not None else folder / "proposals"
    notify = partial(send_all, clock=clock, warn=warn)
    pulse = partial(beat, clock=clock, warn=warn)
    return Door(load, fetch, proposals, clock, log.info, notify, pulse, _Steps(), shares)


def _beside(here: ProjectSettings, config: ProjectSettings) -> str | None:
    """The state that `config`, read from a clone, means: a file is beside the settings that are `here`."""
    scheme, _, path = config.settings.state_url.partition(":")
    return f"{scheme}:{here.root / path}" if not is_shared(config.settings.state_url) else None


class _Steps(LogReporter):
    """Logs what is sent, and not each look."""

    def observing(self, done: int, total: int, waited_s: float) -> None: ...


@verb("status", of=controller)
def status(chosen: ChosenState) -> None:
    """Show the status of each scope, since when, and why."""
    state = chosen.load()
    kept = memory.read(state)
    scopes = [_ordered(each, kept.orders) for each in kept.statuses.values()]
    scopes.sort(key=lambda each: (list(Status).index(each.status), each.scope))
    lines = [
        f"{each.scope}: {each.status} since {in_words(each.since)}"
        f"{f', last success {in_words(each.last_success)}' if each.last_success else ''}"
        f"{f': {each.reason}' if each.reason else ''}"
        for each in scopes
    ]
    lines = lines or ["No controller has looked at anything yet."]
    emit(Page(context=chosen.context(state), document={"scopes": scopes}, text=page_text(lines)))


def _ordered(status: ScopeStatus, orders: Mapping[str, memory.Order]) -> ScopeStatus:
    """`status`, or `suspended` where a controller has not taken the order up yet."""
    order = orders.get(status.scope)
    if order is None or not order.suspended or status.status is Status.SUSPENDED:
        return status
    return ScopeStatus(status.scope, Status.SUSPENDED, status.since, status.last_success, order.suspended)


@verb("suspend", *options.DECIDES, of=controller, report=None)
def suspend(chosen: ChosenState, scope: str = argument()) -> None:
    """Look at SCOPE (an app or organization) no more, until `resume`. Needs --reason."""
    if not chosen.reason:
        raise click.UsageError("--reason: say why, for those who wonder")
    _order(chosen, scope, suspended=chosen.reason)
    click.echo(f"suspended: {scope}")


@verb("resume", *options.DECIDES, of=controller, report=None)
def resume(chosen: ChosenState, scope: str = argument()) -> None:
    """Look at SCOPE again."""
    _order(chosen, scope, suspended=None, now=_now())
    click.echo(f"resumed: {scope}")


@verb("now", *options.DECIDES, of=controller, report=None)
def now(chosen: ChosenState, scope: str = argument()) -> None:
    """Have SCOPE looked at within seconds."""
    _order(chosen, scope, now=_now())
    click.echo(f"asked for: {scope}")


@verb("accept", *options.DECIDES, of=controller, report=None, by_people=True)
def accept(chosen: ChosenState, commit: str = argument()) -> None:
    """Let the controller go on with COMMIT, although the source's history was rewritten."""
    if not re.fullmatch("[0-9a-f]{40,64}", commit):
        raise click.UsageError("COMMIT: the whole id of a commit, as `source-rewritten` names it")
    chosen.use(lambda store: memory.accept(store, chosen.actor(), commit))
    click.echo(f"accepted: {commit}")


def _now() -> str:
    return SystemClock().now().isoformat()


def _order(chosen: ChosenState, scope: str, **said: str | None) -> None:
    """Raises ReconcilerError for a scope that is neither declared nor recorded."""
    state = chosen.load()
    scopes = scopes_of(state, chosen.load_desired().resources)
    known = {*scopes.values(), *memory.read(state).statuses} - {WHOLE_STATE}
    if scope not in known:
        hint = did_you_mean(scope, sorted(known)) or f"there are {', '.join(sorted(known))}" if known else ""
        raise ReconcilerError(f"`{scope}` is not a scope of this project", help=hint)
    chosen.use(lambda store: memory.order(store, chosen.actor(), scope, **said))

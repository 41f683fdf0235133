"""All messages of one run, side by side. What cannot be delivered is told, and changes nothing else."""

import random
import uuid
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

import anyio

from reconciler.core.clock import Clock
from reconciler.core.context import program_version
from reconciler.core.errors import ReconcilerError
from reconciler.kinds.source import OWN_VARIABLES
from reconciler.notify.bodies import body_of
from reconciler.notify.delivery import deliver, origin_of, parse_key, parse_url
from reconciler.notify.events import Event
from reconciler.project.secret import secret_sources
from reconciler.project.sections import NotifySection, SecretSource
from reconciler.project.settings import ProjectSettings
from reconciler.secrets.sources import Sources
from reconciler.services.transport import HttpTransport

_MOST_ANSWER = 64 * 1024  # bytes, of which none is used


async def send_all(
    events: Sequence[Event], config: ProjectSettings, clock: Clock, tell: Callable[[str], None]
) -> None:
    """Send each event to whom it concerns. `tell` gets a sentence for each that was not delivered."""
    # Of these variables no manifest can take a value; here they are used for what they are.
    sources = secret_sources(replace(config, own_variables=OWN_VARIABLES), runs_programs=True)
    async with anyio.create_task_group() as group:
        for number, hook in enumerate(config.settings.notify):
            for event in events:
                if event.name in hook.on:
                    group.start_soon(_send, event, number, hook, sources, clock, tell)


async def _send(
    event: Event,
    number: int,
    hook: NotifySection,
    sources: Sources,
    clock: Clock,
    tell: Callable[[str], None],
) -> None:
    try:
        url = parse_url(hook.url or _value(sources, hook.url_from))
        key = parse_key(_value(sources, hook.secret_from)) if hook.secret_from is not None else None
        id = f"msg_{uuid.uuid4().hex}"
        async with aclosing(HttpTransport(origin_of(url), connections=1, max_body=_MOST_ANSWER)) as transport:
            await deliver(
                transport,
                url,
                body_of(event, hook.format, id),
                id,
                key,
                clock=clock,
                jitter=random.random,
                user_agent=f"reconciler/{program_version()}",
            )
    except ReconcilerError as failure:
        help = f"\n  = help: {failure.help}" if failure.help else ""
        tell(f"nobody was notified of `{event.name}` by `notify.{number}`: {failure.message}{help}")


def _value(sources: Sources, source: SecretSource | None) -> str:
    assert source is not None  # the settings see to that
    return sources.value(source.ref(), lambda ref: None).reveal()

"""Makes messages as slack, json and cloudevents have them, and delivers those of one run at the same time.

A failure is reported and changes nothing else. Each message is signed, has a time limit, and follows no
redirect. Source: Standard Webhooks 1.0.
"""

import base64
import binascii
import hmac
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from pydantic_core import to_json

from reconciler.core.clock import Clock
from reconciler.core.context import program_version
from reconciler.core.errors import ReconcilerError, TransportError
from reconciler.notify.events import Event, Item
from reconciler.project.secret import secret_sources
from reconciler.project.sections import HeartbeatSection, NotifySection, SecretSource
from reconciler.project.settings import ProjectSettings
from reconciler.services.retry import answer_in_time
from reconciler.services.transport import Answer, HttpTransport, Transport, host_and_port, is_loopback

FormatName = Literal["slack", "json", "cloudevents"]

_MOST_LINES = 20  # objects in one message of Slack, which people read
_HEADS = {
    "drift": "Drift",
    "failed": "`{verb}` failed",
    "owed": "Work is owed",
    "proposed": "A plan waits for approvals",
    "question": "A person must decide",
    "silent": "Nobody looks",
    "warning": "`{verb}` warns",
}


class Body(NamedTuple):
    """The bytes of a message and their media type."""

    content_type: str
    data: bytes


def body_of(event: Event, format: FormatName, id: str) -> Body:
    """The body of `event`. `id`: of the message, the same in every attempt to deliver it."""
    return _FORMATS[format](event, id)


def _json(event: Event, id: str) -> Body:
    """Source: Standard Webhooks 1.0, payload structure."""
    said = {"type": event.type, "timestamp": event.run.at.isoformat(), "data": event.to_json()}
    return Body("application/json", to_json(said))


def _cloudevents(event: Event, id: str) -> Body:
    """Source: CloudEvents 1.0.2, HTTP binding, structured mode."""
    said = {
        "specversion": "1.0",
        "id": id,
        "source": f"/reconcile/{event.run.environment}",
        "type": event.type,
        "time": event.run.at.isoformat(),
        "datacontenttype": "application/json",
        "data": event.to_json(),
    }
    return Body("application/cloudevents+json", to_json(said))


def _slack(event: Event, id: str) -> Body:
    """Text for Slack. Foreign words stand in code, where Slack makes no links or mentions of them."""
    run = event.run
    head = _HEADS[event.name].format(verb=run.verb)
    lines = [f"*{head}* in {_code(run.environment)} ({_code(run.platform or 'no platform')})"]
    lines.append(_code(event.summary))
    lines += [f"• {_line(item)}" for item in event.items[:_MOST_LINES]]
    more = event.more + len(event.items[_MOST_LINES:])
    if more:
        lines.append(f"… and {more} more")
    who = [f"by {_code(run.by)}", *(_code(text) for text in (run.job_url, event.run_id) if text)]
    lines.append(", ".join(who))
    return Body("application/json", to_json({"text": "\n".join(lines)}))


def _line(item: Item) -> str:
    """One item as a line for Slack."""
    return ": ".join(_code(part) for part in (item.address, item.what, item.place) if part)


def _code(text: str) -> str:
    """`text` in backticks. Slack, "Formatting text for app surfaces": only `&`, `<`, `>` are escaped."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
    return f"`{safe}`"


_FORMATS: Mapping[FormatName, Callable[[Event, str], Body]] = {
    "slack": _slack,
    "json": _json,
    "cloudevents": _cloudevents,
}


_PREFIX = "whsec_"
_LEAST_KEY, _MOST_KEY = 24, 64  # bytes
_MOST_ANSWER = 64 * 1024  # bytes of an answer's body, which nothing reads
_AGENT = {"user-agent": f"reconciler/{program_version()}"}


async def send_all(
    events: Sequence[Event], config: ProjectSettings, clock: Clock, warn: Callable[[str], None]
) -> None:
    """Send each event to the receivers that `notify` of the settings names for it.

    `warn` gets one sentence for each message that was not delivered, without its address or secret.
    """
    value = _secrets(config)

    async def send(event: Event, number: int, hook: NotifySection) -> None:
        """Send one event to one receiver. Failures become warnings."""
        try:
            url = parse_url(hook.url or await value(hook.url_from))
            key = parse_key(await value(hook.secret_from)) if hook.secret_from is not None else None
            id = f"msg_{uuid.uuid4().hex}"
            body = body_of(event, hook.format, id)
            async with _transport_to(url) as transport:
                await deliver(transport, url, body, id, key, clock=clock)
        except ReconcilerError as failure:
            help = f"\n  = help: {failure.help}" if failure.help else ""
            warn(f"could not deliver `{event.name}` to `notify.{number}`: {failure.message}{help}")

    async with anyio.create_task_group() as group:
        for number, hook in enumerate(config.settings.notify):
            for event in events:
                if event.name in hook.on:
                    group.start_soon(send, event, number, hook)


async def beat(
    heartbeat: HeartbeatSection, config: ProjectSettings, clock: Clock, warn: Callable[[str], None]
) -> None:
    """Ask the address of a service that raises an alarm when nobody does. `warn`: as of `send_all`."""
    try:
        url = parse_url(heartbeat.url or await _secrets(config)(heartbeat.url_from))

        async with _transport_to(url) as transport:

            async def attempt(deadline_s: float) -> Answer:
                return await transport.request("GET", url, headers=_AGENT, body=b"", deadline_s=deadline_s)

            answer = await answer_in_time(attempt, clock=clock, jitter=random.random)
        if not 200 <= answer.status < 300:
            raise ReconcilerError(f"{host_and_port(url)} answered {answer.status}")
    except ReconcilerError as failure:
        warn(f"the heartbeat was not delivered: {failure.message}")


def _secrets(config: ProjectSettings) -> Callable[[SecretSource | None], Awaitable[str]]:
    """A function for the value of a secret, for which a program may run. It raises SecretUnavailable."""
    sources = secret_sources(config, runs_programs=True, ours=True, take_signals=False)

    async def value(source: SecretSource | None) -> str:
        assert source is not None  # the settings have validated that
        found = partial(sources.value, source.ref(), lambda ref: None)
        return (await to_thread.run_sync(found, abandon_on_cancel=True)).reveal()

    return value


async def deliver(
    transport: Transport,
    url: str,
    body: Body,
    id: str,
    key: bytes | None,
    *,
    clock: Clock,
    jitter: Callable[[], float] = random.random,
) -> None:
    """Send one message, with retries in a time limit.

    `key`: signs every attempt; None sends it unsigned. Raises ReconcilerError where no attempt succeeded. It
    names the host, not the `url`, which may be a secret.
    """

    async def attempt(deadline_s: float) -> Answer:
        """One attempt, signed with its own time."""
        headers = {
            **_AGENT,
            "content-type": body.content_type,
            "webhook-id": id,
            **(_signed(id, int(clock.now().timestamp()), body.data, key) if key is not None else {}),
        }
        return await transport.request("POST", url, headers=headers, body=body.data, deadline_s=deadline_s)

    host = host_and_port(url)
    try:
        answer = await answer_in_time(attempt, clock=clock, jitter=jitter)
    except TransportError as failure:
        raise ReconcilerError(f"{host} got no answer across: {failure.message}") from None
    if 300 <= answer.status < 400:
        raise ReconcilerError(f"{host} answered {answer.status}: no redirect is followed")
    if not 200 <= answer.status < 300:
        raise ReconcilerError(f"{host} answered {answer.status}")


def _signed(id: str, timestamp: int, body: bytes, key: bytes) -> Mapping[str, str]:
    """The headers with the signature. `timestamp`: seconds since 1970."""
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
    return {
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode('ascii')}",
    }


def parse_key(secret: str) -> bytes:
    """The key in a secret of the form whsec_BASE64. Raises ReconcilerError, which hides the secret."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_PREFIX) or not _LEAST_KEY <= len(key) <= _MOST_KEY:
        raise ReconcilerError(
            f"the secret is not `{_PREFIX}` and {_LEAST_KEY} to {_MOST_KEY} bytes in base64",
            help=f"make one: printf {_PREFIX}; head -c 32 /dev/urandom | base64",
        )
    return key


def parse_url(text: str) -> str:
    """A valid https address (http for loopback only). Raises ReconcilerError, which does not repeat it."""
    url = text.strip()
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable()
    except ValueError:
        usable = False
    if not usable or " " in url or "@" in parts.netloc or "#" in url:
        raise ReconcilerError("the address is not one such as https://hooks.example.com/PATH")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(url)):
        raise ReconcilerError("the address does not begin with https:// (http is for loopback only)")
    return url


def _transport_to(url: str) -> "aclosing[HttpTransport]":
    """A transport to the scheme, host and port of `url`."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return aclosing(HttpTransport(origin, connections=1, max_body=_MOST_ANSWER))

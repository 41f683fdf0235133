"""The body and content type of a message, in the formats slack, json and cloudevents."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from pydantic_core import to_json

from reconciler.notify.events import Event, Item

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
    return _as_json(
        "application/json",
        {"type": event.type, "timestamp": event.run.at.isoformat(), "data": event.to_json()},
    )


def _cloudevents(event: Event, id: str) -> Body:
    """Source: CloudEvents 1.0.2, HTTP binding, structured mode."""
    return _as_json(
        "application/cloudevents+json",
        {
            "specversion": "1.0",
            "id": id,
            "source": f"/reconcile/{event.run.environment}",
            "type": event.type,
            "time": event.run.at.isoformat(),
            "datacontenttype": "application/json",
            "data": event.to_json(),
        },
    )


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
    return _as_json("application/json", {"text": "\n".join(lines)})


def _line(item: Item) -> str:
    """One item as a line for Slack."""
    return ": ".join(_code(part) for part in (item.address, item.what, item.place) if part)


def _code(text: str) -> str:
    """`text` in backticks. Slack, "Formatting text for app surfaces": only `&`, `<`, `>` are escaped."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
    return f"`{safe}`"


def _as_json(content_type: str, value: Mapping[str, Any]) -> Body:
    """`value` as the JSON body of a message."""
    return Body(content_type, to_json(value))


_FORMATS: Mapping[FormatName, Callable[[Event, str], Body]] = {
    "slack": _slack,
    "json": _json,
    "cloudevents": _cloudevents,
}

"""Machine events of the platform: CloudEvents in binary mode, each handled once.

Id, source and type travel in headers, which nothing signs. They tell events apart and choose nothing more:
a handler is to read the machine again. The body's own digest is part of what tells events apart, or else
somebody could use up the id of an event to come with the body of one that was.
"""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any

from cloudevents.core.bindings.http import HTTPMessage, from_binary_event
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from reconciler.core.clock import Clock
from reconciler.providers.kit.functions import MachineEvent
from reconciler.providers.kit.intake import Intake, Refusal
from reconciler.providers.kit.store import Store

Handler = Callable[[MachineEvent], Awaitable[None]]

KEEP_S = 7 * 24 * 3600
_MOST_HEADER = 1024


class Events:
    def __init__(self, intake: Intake, store: Store, clock: Clock, handler: Handler | None) -> None:
        self._intake, self._store, self._clock, self._handler = intake, store, clock, handler

    async def take(self, request: Request) -> Response:
        """202 when the event was handled, now or before. Raises NotAuthentic, Refusal (422, 429, 409)."""
        body, fields = await self._intake.event(request)
        source, event = _read(request, body, fields)
        digest = sha256(b"\0".join((source.encode(), event.id.encode(), body))).hexdigest()
        lease = f"event:{digest}"
        if self._store.row("SELECT 1 FROM events WHERE digest = ?", digest) is None:
            if not self._store.take(lease):
                raise Refusal(409, "this event is being handled", {"retry-after": "1"})
            try:
                if self._handler is not None:
                    await self._handler(event)
                # Remembered only now: an event whose handler failed, or died, comes again.
                now = self._clock.now().timestamp()
                self._store.claim("events", digest, now)
                self._store.forget_before("events", now - KEEP_S)
            finally:
                self._store.release(lease)
        return JSONResponse({"status": "taken"}, 202)


def _read(request: Request, body: bytes, fields: Mapping[str, Any]) -> tuple[str, MachineEvent]:
    """The event's source, and the event. Raises Refusal (422) naming the field."""
    headers = {name: value for name, value in request.headers.items() if name.startswith("ce-")}
    for name in ("ce-id", "ce-source", "ce-type", "ce-specversion"):
        if not headers.get(name) or len(headers[name]) > _MOST_HEADER:
            raise Refusal(422, f"`{name}` is missing, empty or too long")
    try:
        event = from_binary_event(HTTPMessage({**headers, "content-type": "application/json"}, body))
    except Exception:  # the SDK has several, and dateutil's besides
        raise Refusal(422, "the headers are not those of a CloudEvent") from None
    machine_id, status, data = fields.get("machine_id"), fields.get("status"), fields.get("data")
    data = {} if data is None else data
    if not isinstance(machine_id, str) or not machine_id:
        raise Refusal(422, "`machine_id` must be text")
    if not isinstance(status, str | None):
        raise Refusal(422, "`status` must be text")
    if not isinstance(data, dict):
        raise Refusal(422, "`data` must be an object")
    return event.get_source(), MachineEvent(machine_id, status, data, event.get_type(), event.get_id())

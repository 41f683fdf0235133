"""What is kept of the platform's answers: all of it, but for requests that may bring a secret's value.

Of those, fields that are known to be harmless: a value can be echoed in any form, which no search would
find. Of the fields that are kept, one is unknown where it repeats the value that was sent as it is.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from reconciler.core.steps import Call, Read
from reconciler.services.answers import parsed
from reconciler.services.outcome import Outcome, Verdict

_KEPT = ("name", "digest", "version", "Version", "created_at", "updated_at")
_SHORTEST = 6  # characters: what is shorter may stand in a digest by chance


def content(read: Read, body: bytes) -> bytes:
    """The body of the answer to `read`, as JSON."""
    return to_json(_harmless(parsed(body))) if read.sensitive else body


def outcome(outcome: Outcome, call: Call) -> Outcome:
    """`outcome` of `call`, fit to be recorded and shown."""
    return _without_values(outcome, call.body) if call.sensitive else outcome


def _without_values(outcome: Outcome, sent: Mapping[str, Any] | None) -> Outcome:
    """`outcome` with the known harmless fields of its reply, and without the platform's words
    about a request that carried a value. `sent`: the request's body."""
    if outcome.kind is Verdict.YES and not outcome.message:
        reply = _harmless(outcome.reply)
        value = (sent or {}).get("value")
        if isinstance(reply, dict) and isinstance(value, str):
            reply = {name: found for name, found in reply.items() if not _repeats(found, value)}
        return replace(outcome, reply=reply)
    if sent is None or outcome.status < 300:
        return replace(outcome, reply=None)
    word = f"{outcome.refusal}; " if outcome.refusal else ""
    message = f"{word}the platform's words are not shown: they may repeat the value"
    return replace(outcome, reply=None, message=message)


def _repeats(found: Any, value: str) -> bool:
    """Whether `found` is the value, holds it or is a part of it. A list or mapping is not looked through."""
    if isinstance(found, dict | list):
        return True
    part, whole = sorted((str(found), value), key=len)
    return bool(found == value) or (len(part) >= _SHORTEST and part in whole)


def _harmless(reply: Any) -> Any:
    """The fields that are known not to hold a value, of one secret or of a list of them."""
    if not isinstance(reply, dict):
        return None
    if isinstance(reply.get("secrets"), list):
        return {"secrets": [_harmless(secret) for secret in reply["secrets"]]}
    return {name: reply[name] for name in _KEPT if name in reply}

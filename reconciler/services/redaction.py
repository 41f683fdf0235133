"""Keeping secret values inside the client: what may leave it of an answer.

Of answers about secrets, by field and by place: a value can be echoed in any form, which no search would
find. Of the fields that are kept, one is unknown where it repeats the value that was sent as it is. The token
goes out with every request, so error answers are also searched for it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from reconciler.core.model import SENSITIVE
from reconciler.services.answers import NOT_JSON, parsed
from reconciler.services.outcome import Outcome, Verdict
from reconciler.services.transport import Answer

_KEPT = ("name", "digest", "version", "Version", "created_at", "updated_at")
_SHORTEST = 6  # characters: what is shorter may stand in a digest by chance


def without_values(outcome: Outcome, sent: Mapping[str, Any] | None) -> Outcome:
    """`outcome` with the known harmless fields of its reply, and without the platform's words
    about a request that carried a value. `sent`: the request's body."""
    if outcome.kind is Verdict.YES and not outcome.message:
        reply = harmless(outcome.reply)
        value = (sent or {}).get("value")
        if isinstance(reply, dict) and isinstance(value, str):
            reply = {name: told for name, told in reply.items() if not _repeats(told, value)}
        return replace(outcome, reply=reply)
    if sent is None or outcome.status < 300:
        return replace(outcome, reply=None)
    word = f" ({outcome.refusal})" if outcome.refusal else ""
    message = f"status {outcome.status}{word}; the platform's words are not shown: they may repeat the value"
    return replace(outcome, reply=None, message=message)


def _repeats(told: Any, value: str) -> bool:
    """Whether `told` is the value, holds it or is a part of it. A list or mapping is not looked through."""
    if isinstance(told, dict | list):
        return True
    part, whole = sorted((str(told), value), key=len)
    return bool(told == value) or (len(part) >= _SHORTEST and part in whole)


def without_token(answer: Answer, token: str) -> Answer:
    """An error answer, whose words are shown and recorded, without the token that it may repeat."""
    reply = parsed(answer.body)  # in JSON, the token may be escaped
    if reply is NOT_JSON:
        body = answer.body.replace(token.encode(), SENSITIVE.encode())
    else:
        body = to_json(_replaced(reply, token))
    headers = {name: value.replace(token, SENSITIVE) for name, value in answer.headers.items()}
    return Answer(answer.status, headers, body)


def _replaced(value: Any, token: str) -> Any:
    if isinstance(value, str):
        return value.replace(token, SENSITIVE)
    if isinstance(value, list):
        return [_replaced(item, token) for item in value]
    if isinstance(value, dict):
        return {name.replace(token, SENSITIVE): _replaced(item, token) for name, item in value.items()}
    return value


def harmless(reply: Any) -> Any:
    """The fields that are known not to hold a value, of one secret or of a list of them."""
    if not isinstance(reply, dict):
        return None
    if isinstance(reply.get("secrets"), list):
        return {"secrets": [harmless(secret) for secret in reply["secrets"]]}
    return {name: reply[name] for name in _KEPT if name in reply}

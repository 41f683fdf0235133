"""Keeping secret values inside the client: what may leave it of an answer.

Of answers about secrets, by field and by place, never by searching text: a value can be echoed in any
form. The token goes out with every request, so error answers are also searched for it.
"""

from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from reconciler.model import SENSITIVE
from reconciler.platform.answers import NOT_JSON, parsed
from reconciler.platform.outcome import Outcome, Verdict
from reconciler.transport import Answer

_KEPT = ("name", "digest", "version", "Version", "created_at", "updated_at")


def without_values(outcome: Outcome, *, value_sent: bool) -> Outcome:
    """`outcome` with the known harmless fields of its reply, and without the platform's words
    about a request that carried a value."""
    if outcome.kind is Verdict.YES and not outcome.message:
        return replace(outcome, reply=harmless(outcome.reply))
    if not value_sent or outcome.status < 300:
        return replace(outcome, reply=None)
    word = f" ({outcome.refusal})" if outcome.refusal else ""
    message = f"status {outcome.status}{word}; the platform's words are not shown: they may repeat the value"
    return replace(outcome, reply=None, message=message)


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

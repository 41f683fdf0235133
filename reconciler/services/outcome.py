"""What one answer to a mutation means: it did not happen, it did, or nobody can tell. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from reconciler.core.errors import NotSent, TransportError
from reconciler.services.answers import NOT_JSON, at_path, error_text, is_html, parsed, request_id
from reconciler.services.refusals import Refusal, recognise
from reconciler.services.transport import Answer


class Verdict(StrEnum):
    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one mutation.

    `reply`: the parsed JSON, None when there is none. `id`: the object's id, where one is due and
    stands in the reply. `status`: 0 when no answer came. `message`: why it is not simply YES,
    for people; it comes from the network, but is one clean line. `refusal`: see `refusals`.
    """

    kind: Verdict
    reply: Any | None = field(default=None, repr=False)
    id: str | None = None
    status: int = 0
    message: str = ""
    request_id: str = ""
    refusal: Refusal | None = None


# The platform (or the proxy before it) refuses these before anything happens, in any words.
_REFUSED_BY_ANYONE = frozenset({401, 403, 413, 415, 429})

# The platform refuses with these too, but a proxy's HTML page with one of them proves nothing.
_REFUSED_BY_PLATFORM = frozenset({400, 404, 409, 410, 412, 422})


def classify(answer: Answer, *, id_path: str | None, accepts: Collection[str] = ()) -> Outcome:
    """The outcome of a mutation that was answered.

    NO: 401, 403, 413, 415, 429; 400, 404, 409, 410, 412, 422 unless the body is HTML.
    YES: 2xx with the id at the dotted `id_path` (None: no id is due, and the body may be empty),
    and the refusals in `accepts` (words of `Refusal`), which mean that nothing is left to do.
    A missing app is another word than a missing object, and no HTML page is ever accepted.
    UNKNOWN: everything else. That holds for the other 4xx as well: the platform is not known to
    send them, so whoever did may stand behind it; a needless question costs less than a second
    create. Source: design, section 5.
    """
    reply = parsed(answer.body)
    if 200 <= answer.status < 300:
        return _accepted(answer, reply, id_path)
    code, text = error_text(answer, reply)
    refusal = recognise(answer.status, code, text)
    return Outcome(
        _verdict_of_error(answer, refusal, accepts),
        reply=None if reply is NOT_JSON else reply,
        status=answer.status,
        message=text or code or f"status {answer.status} without a word",
        request_id=request_id(answer),
        refusal=refusal,
    )


def unanswered(error: TransportError) -> Outcome:
    """The outcome of a mutation without an answer: NO if provably nothing was sent, else UNKNOWN."""
    kind = Verdict.NO if isinstance(error, NotSent) else Verdict.UNKNOWN
    return Outcome(kind, message=error.message)


def _accepted(answer: Answer, reply: Any, id_path: str | None) -> Outcome:
    """A 2xx. The id counts before anything else is looked at: it is what must not get lost."""
    id = _id_at(reply, id_path) if id_path is not None else None
    if id is not None:
        problem = ""
    elif is_html(answer):
        problem = "the answer is an HTML page, not the platform's"
    elif reply is NOT_JSON and answer.body.strip():
        problem = "the answer is not JSON"
    elif id_path is not None:
        problem = f"the answer holds no id at `{id_path}`"
    else:
        problem = ""
    return Outcome(
        Verdict.UNKNOWN if problem else Verdict.YES,
        reply=None if reply is NOT_JSON else reply,
        id=id,
        status=answer.status,
        message=problem,
        request_id=request_id(answer),
    )


def _id_at(reply: Any, id_path: str) -> str | None:
    id = at_path(reply, id_path)
    if isinstance(id, bool) or not isinstance(id, str | int):
        return None
    return str(id).strip() or None


def _verdict_of_error(answer: Answer, refusal: Refusal | None, accepts: Collection[str]) -> Verdict:
    if answer.status in _REFUSED_BY_ANYONE:
        return Verdict.NO
    if is_html(answer):
        return Verdict.UNKNOWN
    if refusal in accepts:
        return Verdict.YES
    return Verdict.NO if answer.status in _REFUSED_BY_PLATFORM else Verdict.UNKNOWN

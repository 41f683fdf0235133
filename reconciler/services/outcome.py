"""The parts of an answer, and the outcome of a mutation: it did not happen, it did, or nobody can tell. Pure.

Parts are wire models, JSON, error text, time and request id.

Some refusals differ only in their text. Each service has one table of them. A row matches by its code word,
or by status and text. The code word outranks the text, so all rows are tried by code word first. A refusal
that matches no row is named by its status alone.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import cache, lru_cache
from types import GenericAlias
from typing import Any, NamedTuple

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError, create_model
from pydantic_core import from_json

from reconciler.core.errors import NotSent, TransportError
from reconciler.core.wire import Shape, Wire, is_id
from reconciler.services.transport import Answer

MAX_TEXT = 500  # characters of an error text that are kept

NOT_JSON = object()  # tells "not JSON" from the JSON null


def parsed(body: bytes) -> Any:
    """The JSON value of `body`, or `NOT_JSON` (an empty body is not JSON)."""
    try:
        return from_json(body)
    except ValueError:
        return NOT_JSON


def is_html(answer: Answer) -> bool:
    """Whether the answer is HTML: the platform sends none, so a proxy or a gateway wrote it."""
    return "html" in answer.headers.get("content-type", "").lower() or answer.body.lstrip()[:1] == b"<"


def at_path(value: Any, path: str) -> Any:
    """The part of a JSON value at the dotted `path`, all of it at ""; None if there is none."""
    for key in path.split(".") if path else ():
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def error_text(answer: Answer, reply: Any) -> tuple[str, str]:
    """The code word and the text of an error answer, clean and short; both may be empty.

    The code word is in `status`. The text is in `error`, `message` or `errors.detail`, or it is the plain
    body. `reply`: the parsed body. Source: platform notes, "Errors, limits, headers".
    """
    if isinstance(reply, dict):
        texts = (at_path(reply, path) for path in ("error", "message", "errors.detail"))
        text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
        code = reply.get("status")
        return cleaned(code) if isinstance(code, str) else "", cleaned(text)
    if isinstance(reply, str):
        return "", cleaned(reply)
    if is_html(answer):
        return "", "an HTML page"
    return "", cleaned(answer.body[: 4 * MAX_TEXT].decode("utf-8", "replace"))


def first_difference(error: ValidationError) -> str:
    """The first place where an answer differs from its shape, and how, without quoting the answer."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = cleaned(".".join(map(str, first["loc"])))
    return f"`{place}`: {first['type']}" if place else first["type"]


def cleaned(text: str) -> str:
    """`text` on one line, without control and formatting characters, at most `MAX_TEXT` characters long.

    It comes from the network and is printed on terminals, where an escape sequence could hide other text.
    """
    visible = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in text[: 4 * MAX_TEXT])
    line = " ".join(visible.split())
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…"


def request_id(answer: Answer) -> str:
    """The platform's id of this request, from a header with any prefix; "" if there is none."""
    found = (value for name, value in answer.headers.items() if name.endswith("request-id"))
    return cleaned(next(found, ""))


_FIRST_YEAR, _LAST_YEAR = 1970, 9000


@lru_cache(maxsize=64)  # all answers of one second have the same text
def http_date(text: str) -> datetime | None:
    """The moment of an HTTP date in UTC; None if it is missing, unreadable or at the end of all times.

    No clock shows such a time, and nothing could be added to it.
    """
    try:
        moment = parsedate_to_datetime(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _FIRST_YEAR <= moment.year < _LAST_YEAR else None


@cache
def _adapter(shape: Shape) -> TypeAdapter[Any]:
    """The parser of a whole answer."""
    held: Any = GenericAlias(list, shape.model) if shape.many else shape.model
    fields: dict[str, Any] = {_field(shape): (held, ...)}
    return TypeAdapter(create_model("Answer", __base__=Wire, **fields) if _field(shape) else held)


def _field(shape: Shape) -> str:
    """The field of the answer that contains the objects; "": the answer has no such field."""
    return shape.model.many_at if shape.many else shape.model.one_at


def read_shape(shape: Shape, body: bytes) -> Sequence[Any]:
    """The objects in `body`, one for a single answer. Raises pydantic.ValidationError (a ValueError)."""
    if shape.model.may_be_empty and not body.strip():
        body = b"{}"
    answer = _adapter(shape).validate_json(body)
    found = getattr(answer, _field(shape)) if _field(shape) else answer
    return found if shape.many else [found]


class Refusal(StrEnum):
    """The words that `StepEffect.accepts` may hold."""

    APP_MISSING = "app_missing"  # 404 of the app itself: proves nothing about its objects
    NOT_FOUND = "not_found"  # any other 404
    GONE = "gone"  # 410: being deleted, or deleted
    NO_CAPACITY = "no_capacity"  # no hardware for the volume, or no unique zone left
    SNAPSHOT_SCHEDULED = "snapshot_scheduled"  # one is running: wait for it and use it
    VOLUME_BOUND = "volume_bound"  # to a machine, or to one that has just gone
    STATE_NOT_REACHED = "state_not_reached"  # a wait ended before its state came: ask again
    RATE_LIMITED = "rate_limited"


class Row(NamedTuple):
    """One refusal of a service's table: the statuses and the text that it has, or its code words.

    `text`: a pattern that is searched in the error text, ignoring case.
    """

    refusal: Refusal
    statuses: tuple[int, ...]
    text: str
    codes: tuple[str, ...] = ()


_BY_STATUS = {404: Refusal.NOT_FOUND, 410: Refusal.GONE, 429: Refusal.RATE_LIMITED}


def recognise(table: Sequence[Row], status: int, code: str, text: str) -> Refusal | None:
    """The kind of refusal that an error answer is; None for one that needs no name."""
    for known in table:
        if code in known.codes:
            return known.refusal
    for known in table:
        if status in known.statuses and re.search(known.text, text, re.IGNORECASE):
            return known.refusal
    return _BY_STATUS.get(status)


class Verdict(StrEnum):
    """Whether a mutation took effect."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one mutation.

    `reply`: the parsed JSON, None if there is none. `id`: the object's id, if one is due and the reply has
    it. `status`: 0 if no answer came. `message`: why the outcome is not simply YES, for people; it comes from
    the network, but is one clean line. `refusal`: see `recognise`. `bad_id`: the call was accepted, and the
    id in the reply is missing or cannot be used. `retry_after_s`: how long the service asks to wait; None: it
    does not say.
    """

    kind: Verdict
    reply: Any | None = field(default=None, repr=False)
    id: str | None = None
    status: int = 0
    message: str = ""
    request_id: str = ""
    refusal: Refusal | None = None
    retry_after_s: float | None = None
    bad_id: bool = False


class Policy(Struct, frozen=True):
    """Which error answers of a service prove that a mutation did nothing.

    `by_anyone`: statuses that prove it whatever the body is: the service, or a proxy before it, refuses
    before anything happens. `by_itself`: statuses that prove it unless the body is HTML, because a proxy's
    page proves nothing. `refusals`: the table of refusals that differ in their text.
    """

    by_anyone: frozenset[int]
    by_itself: frozenset[int]
    refusals: Sequence[Row] = ()


def classify(
    answer: Answer, policy: Policy, *, id_path: str | None, accepts: Collection[str] = ()
) -> Outcome:
    """The outcome of a mutation that was answered. Source: design, section 5.

    NO: the statuses of `policy`. YES: 2xx with the id at the dotted `id_path` (None: no id is due, and the
    body may be empty), and the refusals in `accepts` (words of `Refusal`), which mean that nothing is left to
    do. A missing app is another refusal than a missing object. An HTML page is never accepted. UNKNOWN:
    everything else.
    """
    reply = parsed(answer.body)
    if 200 <= answer.status < 300:
        return _accepted(answer, reply, id_path)
    code, text = error_text(answer, reply)
    refusal = recognise(policy.refusals, answer.status, code, text)
    return Outcome(
        _verdict_of_error(answer, policy, refusal, accepts),
        reply=None if reply is NOT_JSON else reply,
        status=answer.status,
        message=text or code or "no reason was given",
        request_id=request_id(answer),
        refusal=refusal,
    )


def unanswered(error: TransportError) -> Outcome:
    """The outcome of a mutation without an answer: NO if nothing was sent for certain, else UNKNOWN."""
    kind = Verdict.NO if isinstance(error, NotSent) else Verdict.UNKNOWN
    return Outcome(kind, message=error.message)


def _accepted(answer: Answer, reply: Any, id_path: str | None) -> Outcome:
    """The outcome of a 2xx. A valid id decides before anything else: it must not get lost."""
    id = _id_at(reply, id_path) if id_path is not None else None
    bad_id = False
    if id is not None:
        problem = ""
    elif is_html(answer):
        problem = "the answer is an HTML page, not the platform's"
    elif reply is NOT_JSON and answer.body.strip():
        problem = "the answer is not JSON"
    elif id_path is not None:
        problem, bad_id = f"the answer has no valid id at `{id_path}`", True
    else:
        problem = ""
    return Outcome(
        Verdict.UNKNOWN if problem else Verdict.YES,
        reply=None if reply is NOT_JSON else reply,
        id=id,
        status=answer.status,
        message=problem,
        request_id=request_id(answer),
        bad_id=bad_id,
    )


def _id_at(reply: Any, id_path: str) -> str | None:
    """The id at the dotted path; None unless it is a valid one."""
    id = at_path(reply, id_path)
    if isinstance(id, bool) or not isinstance(id, str | int):
        return None
    text = str(id).strip()
    return text if is_id(text) else None


def _verdict_of_error(
    answer: Answer, policy: Policy, refusal: Refusal | None, accepts: Collection[str]
) -> Verdict:
    """Whether an error answer proves that nothing happened, or that nothing is left to do."""
    if answer.status in policy.by_anyone:
        return Verdict.NO
    if is_html(answer):
        return Verdict.UNKNOWN
    if refusal in accepts:
        return Verdict.YES
    return Verdict.NO if answer.status in policy.by_itself else Verdict.UNKNOWN

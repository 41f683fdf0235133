"""The outcome of a mutation, from its answer: it did not happen, it did, or nobody can tell. Pure.

Some refusals differ only in their text. Each service has one table of them. A row matches by its code word,
or by status and text. The code word outranks the text, so all rows are tried by code word first. A refusal
that matches no row is named by its status alone.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from reconciler.core.errors import NotSent, TransportError
from reconciler.core.wire import is_id
from reconciler.services.answers import NOT_JSON, at_path, error_text, is_html, parsed, request_id
from reconciler.services.transport import Answer


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
    """One refusal of a service's table: the statuses and the text that it has, or its code words."""

    refusal: Refusal
    statuses: tuple[int, ...]
    text: re.Pattern[str]
    codes: tuple[str, ...] = ()


def row(refusal: Refusal, statuses: tuple[int, ...], text: str, codes: tuple[str, ...] = ()) -> Row:
    """A row of the table. `text`: a pattern that is searched in the error text, ignoring case."""
    return Row(refusal, statuses, re.compile(text, re.IGNORECASE), codes)


_BY_STATUS = {404: Refusal.NOT_FOUND, 410: Refusal.GONE, 429: Refusal.RATE_LIMITED}


def recognise(table: Sequence[Row], status: int, code: str, text: str) -> Refusal | None:
    """The kind of refusal that an error answer is; None for one that needs no name."""
    for known in table:
        if code in known.codes:
            return known.refusal
    for known in table:
        if status in known.statuses and known.text.search(text):
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

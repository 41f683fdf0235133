"""What one answer to a mutation means: it did not happen, it did, or nobody can tell. Pure.

Some refusals need their text to be told apart, in one table of each service. A row matches by its code word,
or else by status and text. All rows are tried by code word first, since it outranks the text; a refusal that
no row knows is named by its status alone.
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
    refusal: Refusal
    statuses: tuple[int, ...]
    text: re.Pattern[str]
    codes: tuple[str, ...] = ()


def row(refusal: Refusal, statuses: tuple[int, ...], text: str, codes: tuple[str, ...] = ()) -> Row:
    """`text`: a pattern that stands somewhere in the error text, whatever its case."""
    return Row(refusal, statuses, re.compile(text, re.IGNORECASE), codes)


_BY_STATUS = {404: Refusal.NOT_FOUND, 410: Refusal.GONE, 429: Refusal.RATE_LIMITED}


def recognise(table: Sequence[Row], status: int, code: str, text: str) -> Refusal | None:
    """The word for an error answer, None for one that nobody needs to tell apart."""
    for each in table:
        if code in each.codes:
            return each.refusal
    for each in table:
        if status in each.statuses and each.text.search(text):
            return each.refusal
    return _BY_STATUS.get(status)


class Verdict(StrEnum):
    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one mutation.

    `reply`: the parsed JSON, None when there is none. `id`: the object's id, where one is due and
    stands in the reply. `status`: 0 when no answer came. `message`: why it is not simply YES,
    for people; it comes from the network, but is one clean line. `refusal`: see `recognise`.
    `bad_id`: it was accepted, and the id in the reply is missing or cannot be used.
    `retry_after_s`: how long the service asks to wait; None: it does not say.
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

    `by_anyone`: statuses that do in any words: the service, or a proxy before it, refuses before anything
    happens. `by_itself`: those that do unless the body is HTML: a proxy's page proves nothing.
    `refusals`: the texts that are told apart.
    """

    by_anyone: frozenset[int]
    by_itself: frozenset[int]
    refusals: Sequence[Row] = ()


def classify(
    answer: Answer, policy: Policy, *, id_path: str | None, accepts: Collection[str] = ()
) -> Outcome:
    """The outcome of a mutation that was answered.

    NO: what `policy` says. YES: 2xx with the id at the dotted `id_path` (None: no id is due, and the body
    may be empty), and the refusals in `accepts` (words of `Refusal`), which mean that nothing is left to do.
    A missing app is another word than a missing object, and no HTML page is ever accepted. UNKNOWN:
    everything else. Source: design, section 5.
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
    """The outcome of a mutation without an answer: NO if provably nothing was sent, else UNKNOWN."""
    kind = Verdict.NO if isinstance(error, NotSent) else Verdict.UNKNOWN
    return Outcome(kind, message=error.message)


def _accepted(answer: Answer, reply: Any, id_path: str | None) -> Outcome:
    """A 2xx. The id counts before anything else is looked at: it is what must not get lost."""
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
    id = at_path(reply, id_path)
    if isinstance(id, bool) or not isinstance(id, str | int):
        return None
    text = str(id).strip()
    return text if is_id(text) else None


def _verdict_of_error(
    answer: Answer, policy: Policy, refusal: Refusal | None, accepts: Collection[str]
) -> Verdict:
    if answer.status in policy.by_anyone:
        return Verdict.NO
    if is_html(answer):
        return Verdict.UNKNOWN
    if refusal in accepts:
        return Verdict.YES
    return Verdict.NO if answer.status in policy.by_itself else Verdict.UNKNOWN

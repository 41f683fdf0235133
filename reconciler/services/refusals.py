"""What a refusal says, as a word: some need their text to be told apart, in one table and nowhere else.

A row matches by its code word, or else by status and text. All rows are tried by code word
first, since it outranks the text; what no row knows is named by its status alone.
Source: platform notes.
"""

import re
from enum import StrEnum
from typing import NamedTuple


class Refusal(StrEnum):
    """The words that `Step.accepts` may hold."""

    APP_MISSING = "app_missing"  # 404 of the app itself: proves nothing about its objects
    NOT_FOUND = "not_found"  # any other 404
    GONE = "gone"  # 410: being deleted, or deleted
    NO_CAPACITY = "no_capacity"  # no hardware for the volume, or no unique zone left
    SNAPSHOT_SCHEDULED = "snapshot_scheduled"  # one is running: wait for it and use it
    VOLUME_BOUND = "volume_bound"  # to a machine, or to one that has just gone
    STATE_NOT_REACHED = "state_not_reached"  # a wait ended before its state came: ask again
    RATE_LIMITED = "rate_limited"


class _Row(NamedTuple):
    refusal: Refusal
    statuses: tuple[int, ...]
    text: re.Pattern[str]
    codes: tuple[str, ...] = ()


def _row(refusal: Refusal, statuses: tuple[int, ...], text: str, codes: tuple[str, ...] = ()) -> _Row:
    return _Row(refusal, statuses, re.compile(text, re.IGNORECASE), codes)


_TABLE = (
    _row(
        Refusal.NO_CAPACITY,
        (412, 422),
        r"insufficient (capacity|resources)|placement|unique zone",
        codes=("insufficient_capacity", "volume_placement_capacity"),
    ),
    _row(Refusal.APP_MISSING, (404,), r"could not find app\b"),
    _row(Refusal.SNAPSHOT_SCHEDULED, (412,), r"snapshot is already scheduled"),
    _row(Refusal.VOLUME_BOUND, (412,), r"currently bound to machine"),
    _row(Refusal.STATE_NOT_REACHED, (408,), r"deadline_exceeded"),
)

_BY_STATUS = {404: Refusal.NOT_FOUND, 410: Refusal.GONE, 429: Refusal.RATE_LIMITED}


def recognise(status: int, code: str, text: str) -> Refusal | None:
    """The word for an error answer, None for one that nobody needs to tell apart."""
    for row in _TABLE:
        if code in row.codes:
            return row.refusal
    for row in _TABLE:
        if status in row.statuses and row.text.search(text):
            return row.refusal
    return _BY_STATUS.get(status)

"""What a refusal says, as a word: some need their text to be told apart, in one table of each service.

A row matches by its code word, or else by status and text. All rows are tried by code word
first, since it outranks the text; what no row knows is named by its status alone.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


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

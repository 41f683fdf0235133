"""The one function that says what an entry does, and the tables that are kept up by it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.errors import StoreError
from reconciler.state import rules
from reconciler.state.codec import encode_entry
from reconciler.state.rules import View
from reconciler.state.store import Event, JournalEntry
from tests.state.worlds import NOON, entry

names = st.sampled_from(["a", "b"])
ids = st.sampled_from(["vol_1", "vol_2"])
decisions = st.dictionaries(st.sampled_from(["claimed", "unclaimed", "forget", "platform"]), ids)
entries = st.one_of(
    st.builds(
        JournalEntry,
        run=names,
        event=st.sampled_from([each for each in Event if each.startswith("step.")]),
        at=st.just(NOON),
        step=names,
        attempt=st.integers(1, 2),
    ),
    st.builds(
        JournalEntry,
        run=names,
        event=st.just(Event.RUN_STARTED),
        at=st.just(NOON),
        data=st.dictionaries(st.just("plan"), names),
    ),
    st.builds(JournalEntry, run=names, event=st.just(Event.DECIDED), at=st.just(NOON), data=decisions),
)


def folded(wanted: Sequence[JournalEntry]) -> tuple[View[JournalEntry], list[JournalEntry]]:
    """What `wanted` amounts to, and those of it that are legal where they stand."""
    view: View[JournalEntry] = View()
    legal = []
    for each in wanted:
        try:
            view = rules.after(view, rules.effect(each), each)
        except StoreError:
            continue
        legal.append(each)
    return view, legal


def told(**data: str) -> JournalEntry:
    return JournalEntry("a", Event.DECIDED, NOON, data=data)


@given(st.lists(entries, max_size=30))
def test_an_encoded_entry_has_the_effect_of_the_entry(wanted: list[JournalEntry]) -> None:
    for each in wanted:
        assert rules.effect_of_row(encode_entry(each)) == rules.effect(each)


@pytest.mark.parametrize("event", [Event.UNKNOWN, Event.RUN_OBSERVED, Event.RUN_FINISHED])
def test_some_entries_change_nothing(event: Event) -> None:
    opened = entry(Event.INTENT)
    view = rules.after(View(), rules.effect(opened), opened)
    assert rules.after(view, rules.effect(entry(event)), entry(event)) == view


def test_an_open_intent_is_not_opened_again() -> None:
    opened = entry(Event.INTENT)
    view = rules.after(View(), rules.effect(opened), opened)
    with pytest.raises(StoreError, match="attempt 1 of step s1 in run r1 has already started"):
        rules.after(view, rules.effect(opened), opened)


def test_only_an_outcome_that_is_no_failure_may_have_changed_a_record() -> None:
    changing = {event for event in Event if rules.changes_a_record(event)}
    assert changing == {Event.DONE, Event.SETTLED, Event.PENDING}

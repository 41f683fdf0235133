"""Conditional writes of which the answer, or the request, is lost."""

from collections.abc import Callable, Iterable

import pytest

from reconciler.core.errors import StoreError
from reconciler.state.log import writes
from tests.state.objects.doubles import FAULTS, Fault, Faulty, memory_bucket


def faulty(*faults: Fault) -> Faulty:
    return Faulty(memory_bucket(), in_turn(faults))


def in_turn(faults: Iterable[Fault]) -> Callable[[str], Fault]:
    rest = iter(faults)
    return lambda key: next(rest, "")


@pytest.mark.parametrize("first", FAULTS)
@pytest.mark.parametrize("second", ["", *FAULTS])
def test_a_write_whose_answer_is_lost_lands_once_and_is_known_to_have(first: Fault, second: Fault) -> None:
    bucket = faulty(first, second)
    made = writes.create(bucket, "key", b"one")
    assert isinstance(made, writes.Stored)
    bucket.choose = in_turn((first, second))
    changed = writes.replace(bucket, "key", b"two", made.tag)
    assert isinstance(changed, writes.Stored)
    bucket.let_through()
    found = bucket.inner.get("key")
    assert found is not None
    assert (found.body, found.tag) == (b"two", changed.tag)


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_a_write_on_what_has_changed_never_lands(fault: Fault) -> None:
    bucket = faulty()
    made = writes.create(bucket, "key", b"one")
    assert isinstance(made, writes.Stored)
    writes.replace(bucket, "key", b"other", made.tag)
    for create in (True, False):
        bucket.choose = in_turn([fault])
        if create:
            outcome = writes.create(bucket, "key", b"mine")
        else:
            outcome = writes.replace(bucket, "key", b"mine", made.tag)
        assert isinstance(outcome, writes.Conflict)
        assert outcome.found is not None
        assert outcome.found.body == b"other"
    bucket.let_through()
    found = bucket.inner.get("key")
    assert found is not None
    assert found.body == b"other"


def test_a_store_that_stays_silent_is_not_asked_for_ever() -> None:
    bucket = Faulty(memory_bucket(), lambda key: "request lost")
    with pytest.raises(StoreError, match="did not take a change: the connection to the store broke"):
        writes.create(bucket, "key", b"one")


def test_a_store_without_conditional_writes_is_not_called_up_again() -> None:
    """It answers that what is not there exists, as one does that knows no such request."""
    bucket = Faulty(memory_bucket(), lambda key: "refused")
    with pytest.raises(StoreError, match="did not take a change") as told:
        writes.create(bucket, "key", b"one")
    assert told.value.help == "this store has no conditional writes that work: keep the state in another one"

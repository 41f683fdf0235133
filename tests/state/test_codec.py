"""What is recorded comes back as it was, whatever text a file's name or an answer holds."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.core.model import Address, Deletion, Lifecycle, Obligation, StateRecord
from reconciler.state.codec import decode_record, encode_record

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ADDRESS = Address("Volume", "data", "shop")
_TEXTS = st.text(st.characters(), max_size=80) | st.just("\udcff")  # a name of a file that is not UTF-8
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


def record(applied: dict[str, Any], source: str = "m.yaml", **more: Any) -> StateRecord:
    return StateRecord(ADDRESS, "vol_1", "shop", applied, Lifecycle(), AT, source, serial=7, **more)


def again(record: StateRecord) -> StateRecord:
    return decode_record(record.address, record.serial, encode_record(record).encode())


@given(st.dictionaries(_TEXTS, _VALUES, max_size=5), _TEXTS)
@example({}, "manifests/\udcff.yaml")  # a name of a file that is not text
def test_every_value_comes_back(applied: dict[str, Any], source: str) -> None:
    written = record(applied, source)
    read = again(written)
    assert read == written
    assert repr(read.applied) == repr(written.applied)  # 1 is not 1.0, and True is neither


def test_all_that_a_record_owes_comes_back() -> None:
    owed = Obligation("restart", "extended from 1 to 2 GB", "unknown", AT, "m1")
    lifecycle = Lifecycle(Deletion.DELETE, ("extend",), 60, "auto")
    written = StateRecord(
        ADDRESS, "vol_1", "shop", {}, lifecycle, AT, obligations=(owed,), inferred=True, serial=7
    )
    assert again(written) == written


def test_a_record_of_an_earlier_version_has_no_word_on_restarts() -> None:
    body = json.loads(encode_record(record({})))
    del body["lifecycle"]["restart"]
    assert decode_record(ADDRESS, 7, json.dumps(body).encode()) == record({})


def test_an_obligation_of_an_earlier_version_names_no_machine() -> None:
    owing = record({}, obligations=(Obligation("restart", "extended from 1 to 2 GB", "owed", AT),))
    body = json.loads(encode_record(owing))
    del body["obligations"][0]["machine"]
    assert decode_record(ADDRESS, 7, json.dumps(body).encode()) == owing


def test_records_that_hold_the_same_share_it() -> None:
    one, other = (again(record({"region": "ams", "size_gb": 10})) for _ in range(2))
    assert one.applied is other.applied
    assert (one.scope, one.source) == ("shop", "m.yaml")
    assert one.scope is other.scope


@pytest.mark.parametrize("name", ["id", "scope", "applied", "lifecycle", "created_at", "source", "inferred"])
@pytest.mark.parametrize("value", [None, "\udcff"])
def test_another_body_is_refused_or_kept_as_it_is(name: str, value: Any) -> None:
    """Never with an exception that nobody expects."""
    body = json.loads(encode_record(record({})))
    for other in (
        {**body, name: value},
        {each: body[each] for each in body if each != name},
    ):
        with suppress(ValueError, KeyError, TypeError):
            assert decode_record(ADDRESS, 7, json.dumps(other).encode()) != record({})


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"{}", b"\xff", b'{"id": "a", "scope": NaN}'])
def test_what_is_no_record_is_refused(body: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        decode_record(ADDRESS, 7, body)

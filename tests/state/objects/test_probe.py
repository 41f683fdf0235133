"""The proof of a store, before a state is trusted to it."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import pytest

from reconciler.core.errors import StoreError
from reconciler.state.log.bucket import Bucket, NoAnswer, PreconditionFailed
from reconciler.state.log.store import LogStore
from reconciler.state.log.writes import probe
from tests.state.objects.conftest import S3
from tests.state.objects.doubles import Faulty, Liar, Mixing, Wrapped, memory_bucket
from tests.state.worlds import SimulatedClock


def nonce() -> str:
    return os.urandom(8).hex()


def test_a_store_that_keeps_its_word_passes_and_nothing_is_left() -> None:
    bucket = memory_bucket()
    probe(bucket, "probe/", nonce)
    assert bucket.list("probe/") == {}


@pytest.mark.slow
def test_s3_as_moto_speaks_it_passes(s3: S3) -> None:
    probe(s3.open(), "probe/", nonce)
    assert s3.open().list("probe/") == {}


async def test_a_state_of_an_object_store_can_be_asked_to_prove_it(clock: SimulatedClock) -> None:
    bucket = memory_bucket()
    await LogStore(bucket, clock).probe()
    assert bucket.list("") == {}
    with pytest.raises(StoreError, match="cannot be kept"):
        await LogStore(Mixing(bucket), clock).probe()


class Keeping(Wrapped):
    """Deletes nothing."""

    def delete(self, key: str) -> None:
        raise StoreError("these credentials may not delete")


async def test_what_a_proof_that_was_cut_off_left_is_no_trace_of_a_state(clock: SimulatedClock) -> None:
    bucket = memory_bucket()
    await LogStore(Keeping(bucket), clock).probe()
    assert bucket.list("base/probe/")
    assert await LogStore(bucket, clock).create()


def test_a_store_that_loses_answers_now_and_then_passes() -> None:
    writes = count()
    bucket = Faulty(memory_bucket(), lambda key: "answer lost" if next(writes) % 7 == 3 else "")
    probe(bucket, "probe/", nonce)


@dataclass
class Overtaken(Wrapped):
    """Loses the answer of some writes, and each of these is written over before anybody looks."""

    writes: Iterator[int] = field(default_factory=lambda: count(1))

    def replace(self, key: str, body: bytes, tag: str) -> str:
        tag = self.inner.replace(key, body, tag)
        if next(self.writes) % 7:
            return tag
        with suppress(PreconditionFailed):
            self.inner.replace(key, json.dumps(json.loads(body) | {"nonce": nonce()}).encode(), tag)
        raise NoAnswer("the connection to the store broke")


def test_a_change_whose_answer_was_lost_and_that_was_written_over_still_counts() -> None:
    probe(Overtaken(memory_bucket()), "probe/", nonce)


class Forgetful(Wrapped):
    """Writes over anything."""

    def create(self, key: str, body: bytes) -> str:
        self.inner.delete(key)
        return self.inner.create(key, body)


class Careless(Wrapped):
    """Looks at no tag."""

    def replace(self, key: str, body: bytes, tag: str) -> str:
        found = self.inner.get(key)
        return self.inner.replace(key, body, found.tag if found is not None else tag)


class Blind(Wrapped):
    """Its lists are empty."""

    def list(self, prefix: str) -> dict[str, str]:
        return {}


@pytest.mark.parametrize(
    ("bucket", "what"),
    [
        (Mixing(memory_bucket()), r"it lost \d+ of 80 changes that were made at the same time"),
        (Forgetful(memory_bucket()), "it writes over an object that should not be there"),
        (Careless(memory_bucket()), "it writes over an object that has changed"),
        (Blind(memory_bucket()), "its lists do not show what was just written"),
    ],
)
def test_a_store_that_breaks_its_word_is_refused_by_what_it_did(bucket: Bucket, what: str) -> None:
    with pytest.raises(StoreError, match=what):
        probe(bucket, "probe/", nonce)


@pytest.mark.slow
def test_a_store_that_ignores_a_condition_now_and_then_is_refused(s3: S3) -> None:
    with pytest.raises(StoreError, match=r"it lost \d+ of 80 changes"):
        probe(Liar(s3.open(), every=5), "probe/", nonce)

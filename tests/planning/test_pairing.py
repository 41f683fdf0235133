"""Which name became which: by what names have in common, or not at all."""

import random
from collections.abc import Callable, Mapping

import pytest

from reconciler.moves.compare import ENOUGH, Pairing, pair_names


def paired(came: list[str], left: list[str]) -> list[Pairing]:
    return list(pair_names(came, left, lambda at, to: 0))


def clear(came: list[str], left: list[str]) -> dict[str, str]:
    return {left[each.to[0]]: came[each.at] for each in paired(came, left) if each.clear}


SCHEMES: Mapping[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
    "another-letter": (lambda i: f"n{i}", lambda i: f"x{i}"),
    "with-zeros": (lambda i: f"n{i}", lambda i: f"x{i:04}"),
    "another-word": (lambda i: f"data-{i}", lambda i: f"pg-{i}"),
    "a-word-more": (lambda i: f"tenant{i}", lambda i: f"tenant{i}-data"),
    "turned-round": (lambda i: f"tenant{i}-data", lambda i: f"data-tenant{i}"),
    "two-numbers": (lambda i: f"s{i // 9}-d{i % 9}", lambda i: f"t{i // 9}-e{i % 9}"),
}


@pytest.mark.parametrize("count", [2, 50, 51, 300])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_all_are_paired_in_whatever_order_they_come(scheme: str, count: int) -> None:
    before, after = SCHEMES[scheme]
    numbers = list(range(count))
    left = sorted(before(number) for number in numbers)
    random.Random(1).shuffle(numbers)
    assert clear([after(number) for number in numbers], left) == {before(i): after(i) for i in range(count)}


def test_thousands_need_no_comparison_of_each_with_each() -> None:
    compared = 0

    def cost(at: int, to: int) -> int:
        nonlocal compared
        compared += 1
        return 0

    count = 2_000
    names = [f"tenant{i}-data" for i in range(count)]
    pairings = list(pair_names([f"data-tenant{i}" for i in range(count)], names, cost))
    assert all(each.clear and each.to[0] == each.at for each in pairings)
    assert len(pairings) == count
    assert compared < 5 * count


@pytest.mark.parametrize("count", [2, 60])
def test_what_has_as_much_in_common_with_several_is_paired_with_none(count: int) -> None:
    """`volume` is in all names, and the rest are words that nobody can guess."""
    rng = random.Random(2)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=8)) for _ in range(2 * count)]
    came = [f"volume-{word}" for word in words[:count]]
    pairings = paired(came, [f"volume-{word}" for word in words[count:]])
    assert not any(each.clear for each in pairings)
    assert {each.at for each in pairings} == set(range(count))
    assert all(len(each.to) >= min(count, ENOUGH) for each in pairings)


def test_one_name_that_two_may_have_taken_is_given_to_neither() -> None:
    assert clear(["data-v2", "data-v3", "cache"], ["data"]) == {}
    assert [each.at for each in paired(["data-v2", "data-v3", "cache"], ["data"])] == [0, 1, 2]


def test_the_only_two_left_over_are_a_pair() -> None:
    assert clear(["archive", "data2"], ["data", "logs"]) == {"data": "data2", "logs": "archive"}
    assert clear(["customers", "orders"], ["order", "customer"]) == {
        "customer": "customers",
        "order": "orders",
    }


def test_two_that_cannot_be_one_are_not_paired_whatever_their_names() -> None:
    pairings = list(pair_names(["a1", "b1"], ["a", "b"], lambda at, to: 0 if at != to else None))
    assert {each.at: list(each.to) for each in pairings} == {0: [1], 1: [0]}

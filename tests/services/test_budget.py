"""How long the rate limits alone take for requests that a command knows of."""

import pytest

from reconciler.core.steps import OutputRef, Template
from reconciler.services.registry import Budget, RateKey, Services, rate_key
from tests.services.script import platform, reply

APP = "/v1/apps/shop/volumes"


def services(rate_limit: float | None) -> Services:
    client, _ = platform(reply(), rate_limit=rate_limit)
    return Services({client.name: client})


def gets(found: Services, *paths: str) -> list[RateKey]:
    return [rate_key(found, "platform", "GET", path) for path in paths]


@pytest.mark.parametrize(("per_second", "limited_s"), [(1, 7), (5, 1.4), (0.01, 700)])
def test_the_longest_line_says_how_long_it_takes(per_second: float, limited_s: float) -> None:
    found, budget = services(per_second), Budget()
    budget.add(found, gets(found, *[f"{APP}/vol_{n}" for n in range(10)], "/v1/apps/blog/volumes"))
    assert (budget.requests, budget.is_limited) == (11, True)
    assert budget.limited_s == pytest.approx(limited_s)


def test_only_what_costs_some_seconds_is_told() -> None:
    found = services(1)
    assert Budget().add(found, gets(found, *[APP] * 4)) == ""
    told = Budget().add(found, gets(found, *[APP] * 5))
    assert told == "5 requests; the platform's limits allow them in about 2 s"
    many = Budget().add(found, gets(found, *[APP] * 1_010))
    assert many == "1,010 requests; the platform's limits allow them in about 17 min"


def test_a_later_group_finds_the_burst_used_up() -> None:
    found, budget = services(1), Budget()
    assert budget.add(found, gets(found, *[APP] * 10)).endswith("about 7 s")
    assert budget.add(found, gets(found, *[APP] * 10)).endswith("about 10 s")
    assert budget.limited_s == 17


def test_without_a_limit_requests_are_only_counted() -> None:
    found, budget = services(None), Budget()
    assert budget.add(found, [*gets(found, *[APP] * 1_000), rate_key(found, "nobody", "GET", APP)]) == ""
    assert (budget.requests, budget.limited_s, budget.is_limited) == (1_001, 0, False)


def test_what_is_not_known_yet_stands_in_the_line_of_its_place() -> None:
    found = services(1)

    def of(begin: str, source: str, end: str = "") -> RateKey:
        return rate_key(found, "platform", "POST", Template((begin, OutputRef(source, "id"), end)))

    first, second = "Volume/shop/a#create", "Volume/shop/b#create"
    assert of(f"{APP}/", first, "/extend") == of(f"{APP}/", second, "/extend")
    assert of("/v1/postgres/", first) != of("/v1/postgres/", second)

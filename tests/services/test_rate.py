"""How long a rate limit keeps the pace that an answer 429 taught it: a controller has one for months."""

from reconciler.services.rate import RateLimit
from tests.services.script import SimulatedClock


async def took_s(rate: RateLimit, clock: SimulatedClock, requests: int) -> float:
    began_s = clock.monotonic()
    for _ in range(requests):
        await rate.wait("list")
        rate.answered("list")
    return clock.monotonic() - began_s


async def test_an_hour_after_a_refusal_the_usual_pace_is_back() -> None:
    clock = SimulatedClock()
    rate = RateLimit(10, clock)
    usual_s = await took_s(rate, clock, 20)
    rate.refused("list", 2)
    assert await took_s(rate, clock, 20) >= 2 + 19  # one a second, as the platform documents
    await clock.sleep(3000)
    assert await took_s(rate, clock, 20) > 10 * usual_s
    await clock.sleep(700)
    assert await took_s(rate, clock, 20) <= usual_s + 0.1

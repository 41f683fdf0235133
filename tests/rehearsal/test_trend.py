"""The pace at which objects fill: few odd points change nothing, and what is not known gives none."""

from datetime import timedelta

from reconciler.kinds.roles import Look
from reconciler.project.trends import full_at, pace
from reconciler.services.machines.wire.volume import Volume
from tests.execution.stage import START

GIB = 1024**3
DAY_S = 86_400


def test_the_pace_is_that_of_a_line_and_one_odd_point_does_not_move_it() -> None:
    points = [(START + timedelta(days=day), 100 + 10 * day) for day in range(8)]
    assert pace(points) == 10 / DAY_S
    odd = [*points[:3], (START + timedelta(days=3), 9000), *points[4:]]
    found = pace(odd)
    assert found is not None
    assert abs(found - 10 / DAY_S) < 1 / DAY_S


def test_two_moments_are_needed() -> None:
    assert pace([]) is None
    assert pace([(START, 1)]) is None
    assert pace([(START, 1), (START, 2)]) is None


def test_what_does_not_grow_or_grows_for_ages_is_never_full() -> None:
    assert full_at((START, 5), 10, 0.0) is None
    assert full_at((START, 5), 10, -1.0) is None
    assert full_at((START, 5), 10**15, 1e-9) is None
    assert full_at((START, 5), 10, 1.0) == START + timedelta(seconds=5)
    assert full_at((START, 10), 10, -1.0) == START


def test_a_volume_fills_by_its_size_and_by_its_data() -> None:
    blocks = {"blocks": 10 * GIB // 4096, "block_size": 4096, "blocks_free": 6 * GIB // 4096}

    def look(**fields: int) -> Look:
        return Look.of(Volume(id="vol_1", **{**blocks, **fields}), START)

    assert (look().total_bytes, look().used_bytes, look().percent) == (10 * GIB, 4 * GIB, 40)
    assert (look(blocks=0).total_bytes, look(blocks=0).used_bytes, look(blocks=0).percent) == (None,) * 3
    assert str(look()) == "4.0 of 10.0 GB used (40 %)"
    assert str(look(block_size=0)) == ""

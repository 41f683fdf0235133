"""A part of the week, in which each status can be told."""

import pytest

from tests.reliability.controller import Week, Wrong, playing

pytestmark = pytest.mark.slow


def test_some_hours_with_two_controllers() -> None:
    with playing(seed=7, apps=3) as week:
        played = week.play(days=0.125)
    assert sum(played.values()) >= 2


def test_a_false_status_and_what_is_gone_unsigned_are_found() -> None:
    with playing(seed=7, apps=1) as week:
        (app,) = week.sizes
        week.settle("the beginning", {app: {"changes", "applying", "locked"}})
        week.check_world()
        told_without_a_reason(week, app)
        with pytest.raises(Wrong, match="was told to be drifted"):
            week.settle("nothing", {})
        week.sandbox.call("DELETE", f"/v1/apps/{app}/volumes/{week.data(app)['id']}")
        with pytest.raises(Wrong, match="are declared"):
            week.check_world()


def told_without_a_reason(week: Week, app: str) -> None:
    week.watchers[0].told.append(
        {"event": "scope.changed", "scope": app, "status": "drifted", "reason": "a test"}
    )

"""No zone is left for one more volume of a name: the failure says what lets it share one."""

from typing import Any

import pytest

from tests.execution.stage import Stage, outcomes, volume

LAST = "Volume/shop/data[2]#create"


@pytest.mark.parametrize("status", [412, 422])
@pytest.mark.parametrize("text", ["region", "plain", "empty"])
async def test_a_create_without_a_zone_says_how_to_share_one(stage: Stage, status: int, text: str) -> None:
    switches: dict[str, Any] = {"zones_per_region": 2, "zones_used_up": status, "zones_used_up_text": text}
    stage.switch(**switches)
    three = "region: ams, size_gb: 3, count: 3"
    applied = await stage.apply(volume(spec=three))
    assert outcomes(applied)[LAST] == "failed"
    assert "`require_unique_zone: false`" in applied.results[-1].note
    shared = await stage.apply(volume(spec=f"{three}, require_unique_zone: false"))
    assert outcomes(shared) == {LAST: "done"}

"""The example of docs/providers.md is a provider."""

import re
from pathlib import Path
from typing import Any

from tests.providers.kit.stage import PUBLIC_URL, SECRET, Stage, StageClock
from tests.providers.serve import Platform, order

DOCUMENT = Path(__file__).parents[3] / "docs" / "providers.md"


async def test_the_example_is_provisioned_shown_and_taken_away(tmp_path: Path) -> None:
    source = re.search(r"```python.*?\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert source is not None
    names: dict[str, Any] = {}
    exec(source[1], names)
    app = names["make_app"](PUBLIC_URL, tmp_path / "rooms.db", SECRET.encode())
    clock = StageClock()
    clock.elapsed_s = app.state.kit.clock.now().timestamp() - clock.now().timestamp()
    async with app.state.kit.running():
        stage = Stage(app, app.state.kit, clock, Platform(PUBLIC_URL, secret=SECRET))
        first = await stage.call("POST", "/extensions", order("a"))
        assert first.status == 201
        assert first.json["config"]["ROOM_PASSWORD"] == names["ROOMS"]["a"]
        assert (await stage.call("POST", "/extensions", order("a"))).body == first.body
        assert (await stage.call("GET", "/extensions/a")).json["status"] == "ready"
        assert (await stage.call("GET", "/costs")).json["costs"][0]["amount"] == "5.00"
        assert (await stage.call("DELETE", "/extensions/a")).status == 200
        assert names["ROOMS"] == {}

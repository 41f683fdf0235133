"""A small sample of `runners`, and that a world that is wrong is told."""

import random
from contextlib import ExitStack
from pathlib import Path

from tests.cli.harness import serving
from tests.reliability.proof import Tally
from tests.reliability.runners.team import Team
from tests.reliability.shared import NEW_SERVER, server


def test_three_runners_of_which_one_dies_and_one_loses_the_store_leave_nothing_twice(tmp_path: Path) -> None:
    tally = Tally()
    with ExitStack() as stack:
        sandbox = stack.enter_context(serving())
        found = server(NEW_SERVER, stack)
        assert found is not None
        team = Team(sandbox, found, found.new(), tmp_path, random.Random(1), tally)
        team.begin()
        team.round(["killed", "cut off and killed", "none"])
        assert tally.violations == []
        assert tally.counts["exit 0"] >= 1
        # Whoever makes an object beside them is found out, and so is one that changes what was made.
        (first, *_) = sandbox.volumes("web")
        sandbox.edit_volume(first["id"], snapshot_retention=40)
        assert "web has 1 of 2 volumes `data1` as they should be" in list(team._missing())
        sandbox.call("DELETE", f"/v1/apps/web/volumes/{first['id']}")
        sandbox.make_volume("search", "stray")
        team._count()
        assert any("plan ends with" in each for each in tally.violations)
        assert any("recorded" in each for each in tally.violations)
        assert any("is in no record" in each for each in tally.violations)

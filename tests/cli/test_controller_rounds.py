"""Rounds of a controller in this process, where something happens just between a look and what follows it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from reconciler.cli.controller import _door as made_door
from reconciler.controller import workers
from reconciler.controller.loop import Controller, Loaded
from reconciler.controller.proposals import Proposals
from reconciler.core.steps import Plan
from reconciler.services.rate import RateLimit
from tests.cli.harness import Project, Sandbox, cluster, secret, volume
from tests.cli.test_controller import LARGER
from tests.contexts import context

Told = list[tuple[str, dict[str, Any]]]


class Rounds:
    """`meanwhile`: happens before the manifests are read for the n-th time, counted from 1."""

    def __init__(self, *, shares: bool = False) -> None:
        self.told: Told = []
        self.meanwhile: dict[int, Callable[[], object]] = {}
        self._loads = 0
        self._running = ExitStack()
        door = made_door("", None, None, self._running, sandbox=False, shares=shares)
        self._load = door.load
        self.controller = Controller(replace(door, tell=self._tell, load=self._loaded), anyio.Event())

    def _tell(self, event: str, **fields: Any) -> None:
        self.told.append((event, fields))

    async def _loaded(self) -> Loaded:
        self._loads += 1
        if act := self.meanwhile.get(self._loads):
            await anyio.to_thread.run_sync(act)
        return await self._load()

    async def play(self, number: int = 1) -> None:
        """So many rounds, each with what it begins."""
        for _ in range(number):
            self.controller._schedule._round_s = 0.0
            async with anyio.create_task_group() as tasks:
                await self.controller._tick(tasks, once=False)

    async def end(self) -> None:
        await self.controller._state.close()
        self._running.close()

    def statuses(self) -> dict[str, str]:
        return {scope: str(each.status) for scope, each in self.controller.statuses.by_scope.items()}

    def changes(self, scope: str) -> list[str]:
        """The statuses that were told of `scope`."""
        return [
            each["status"] for event, each in self.told if event == "scope.changed" and each["scope"] == scope
        ]

    def proposals(self) -> list[str]:
        return sorted(file.name for file in self.controller._proposals.folder.glob("*"))


@pytest.fixture
def here(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project, in which this process stands."""
    project.enter(monkeypatch)
    return project


def mode(project: Project, name: str) -> None:
    project.write(f"manifests: [manifests]\ncontroller: {{every: 1h, mode: {name}}}\n", "reconcile.yaml")


@contextmanager
def refused(sandbox: Sandbox, app: str) -> Iterator[None]:
    """The token may not read the app any more."""
    sandbox.fault("GET", f"/v1/apps/{app}/*", "status", status=403, times=None)
    try:
        yield
    finally:
        sandbox.clear_faults()


async def test_what_is_reverted_before_it_is_sent_opens_no_other_scope(
    here: Project, sandbox: Sandbox, app: str
) -> None:
    frozen = sandbox.app(f"{app}-frozen")
    mode(here, "apply")
    here.write(volume(frozen))
    here.apply()
    here.run("controller", "suspend", frozen, "--reason", "hands off")
    here.write(volume(frozen, spec=LARGER) + volume(app))
    rounds = Rounds()
    rounds.meanwhile[2] = lambda: here.write(volume(frozen, spec=LARGER))
    await rounds.play()
    await rounds.end()
    assert sandbox.volume(frozen)["size_gb"] == 10
    assert sandbox.volumes(app) == []


async def test_what_another_scope_has_to_do_first_is_left_to_that_one(
    here: Project, sandbox: Sandbox, app: str
) -> None:
    name = f"db-{app}"
    host = f'template: "${{PostgresCluster/{name}:endpoints.primary.pooler.host}}"'
    mode(here, "propose")
    here.write(volume(app) + secret(app, "HOST", host) + cluster(name))
    rounds = Rounds()
    here.run("controller", "suspend", "org/personal", "--reason", "hands off")
    await rounds.play()
    await rounds.end()
    (proposal,) = (file for file in rounds.proposals() if file.startswith(app))
    text = (rounds.controller._proposals.folder / proposal).read_text()
    assert f"Volume/{app}/data" in text
    assert '"POST", "path": "/v1/postgres"' not in text.replace('":"', '": "').replace('","', '", "')
    assert f"Secret/{app}/HOST#" not in text


async def test_who_is_suspended_while_an_apply_waits_is_not_changed(
    here: Project, sandbox: Sandbox, app: str
) -> None:
    mode(here, "apply")
    here.write(volume(app))
    here.apply()
    here.write(volume(app, spec=LARGER))
    rounds = Rounds()
    rounds.meanwhile[2] = lambda: here.run("controller", "suspend", app, "--reason", "hands off")
    await rounds.play()
    await rounds.end()
    assert sandbox.volume(app)["size_gb"] == 10
    assert rounds.statuses() == {app: "suspended"}


async def test_one_app_that_cannot_be_read_says_nothing_of_the_others(
    here: Project, sandbox: Sandbox, app: str
) -> None:
    others = [sandbox.app(f"{app}-{number}") for number in range(3)]
    mode(here, "observe")
    here.write("".join(map(volume, [app, *others])))
    here.apply()
    rounds = Rounds()
    with refused(sandbox, app):
        await rounds.play(2)
    await rounds.end()
    assert rounds.statuses() == {app: "unknown", **dict.fromkeys(others, "in-sync")}


async def test_a_proposal_and_what_was_signed_outlive_a_look_that_could_not_tell(
    here: Project, sandbox: Sandbox, app: str
) -> None:
    mode(here, "propose")
    here.write(volume(app))
    here.apply()
    here.write(volume(app, spec=LARGER))
    rounds = Rounds()
    await rounds.play()
    (proposal,) = rounds.proposals()
    (rounds.controller._proposals.folder / f"{proposal}.ana.approval").write_text("signed")
    with refused(sandbox, app):
        await rounds.play()
    await rounds.end()
    assert rounds.statuses() == {app: "unknown"}
    assert rounds.proposals() == [proposal, f"{proposal}.ana.approval"]


async def test_all_looks_and_applies_keep_to_one_limit_together(
    here: Project, sandbox: Sandbox, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode(here, "apply")
    here.write(volume(app))
    here.apply()
    here.write(volume(app, spec=LARGER))
    limits: list[RateLimit] = []
    wait = RateLimit.wait

    async def waited(self: RateLimit, *arguments: Any, **options: Any) -> None:
        limits.append(self)
        await wait(self, *arguments, **options)

    monkeypatch.setattr(RateLimit, "wait", waited)
    rounds = Rounds()
    await rounds.play(2)
    await rounds.end()
    assert sandbox.volume(app)["size_gb"] == 20
    assert len(limits) > 2
    assert {*limits} == {limits[0]}


async def test_the_proposal_of_a_scope_that_is_gone_goes_with_it(
    here: Project, sandbox: Sandbox, app: str
) -> None:
    mode(here, "propose")
    other = sandbox.app(f"{app}.other")
    here.write(volume(app) + volume(other))
    rounds = Rounds()
    await rounds.play()
    (_, kept) = rounds.proposals()
    here.write(volume(other))
    await rounds.play()
    await rounds.end()
    assert rounds.proposals() == [kept]


@pytest.mark.parametrize("what", ["question", "drifted"])
async def test_what_a_person_has_to_see_is_told_once_and_stays(
    here: Project, sandbox: Sandbox, app: str, what: str
) -> None:
    if what == "question":
        scope, name = "org/personal", f"db-{app}"
        here.write(cluster(name))
        await anyio.to_thread.run_sync(here.approve, f"PostgresCluster/{name}")
        sandbox.fault("POST", "/v1/postgres", "drop_after")
        here.apply(code=3)
        mode(here, "apply")
    else:
        scope = app
        here.write(volume(app))
        here.apply()
        sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=15)
        here.write(volume(app, spec=LARGER))
        mode(here, "propose")
    rounds = Rounds()
    await rounds.play(3)
    await rounds.end()
    assert rounds.changes(scope) == [what]


async def test_a_scope_that_is_busy_is_looked_at_again_once_it_is_not(
    here: Project, sandbox: Sandbox, app: str
) -> None:
    mode(here, "observe")
    here.write(volume(app))
    here.apply()
    rounds = Rounds()
    await rounds.play()
    controller = rounds.controller
    sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=15)
    controller._busy[app] = None  # type: ignore[assignment]
    controller._look_again({app})
    async with anyio.create_task_group() as tasks:
        await controller._tick(tasks, once=False)
        assert rounds.statuses() == {app: "in-sync"}
        del controller._busy[app]
        await controller._tick(tasks, once=False)
    await rounds.end()
    assert rounds.statuses() == {app: "drifted"}


async def test_a_worker_too_many_looks_after_nothing(
    here: Project, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_PLACES", ("controller/worker-1",))
    mode(here, "observe")
    here.write(volume(app))
    here.apply()
    one, two = Rounds(shares=True), Rounds(shares=True)
    await one.play()
    await two.play()
    await one.end()
    await two.end()
    assert one.statuses() == {app: "in-sync"}
    assert two.statuses() == {}
    assert [event for event, _ in two.told] == ["round.failed"]


def test_approvals_that_came_are_news_once(tmp_path: Path) -> None:
    proposals = Proposals(tmp_path)
    file, _ = proposals.keep("shop", Plan("plan", context(), (), (), (), (), (), ()))
    assert list(proposals.approvals(file)) == []
    file.with_name(f"{file.name}.ana.approval").write_text("signed")
    assert proposals.news() == {"shop"}
    assert proposals.news() == set()

"""What of the reconciler is measured: its commands, each over one world."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar
from urllib.request import urlopen

from bench.platform import Link
from bench.processes import Cost, CouldNotRun
from bench.stage import Program, Stage
from bench.worlds.manifests import change_retention, write_manifests
from bench.worlds.world import World, app_name

_COMMIT = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q")


@dataclass(frozen=True)
class Help(Program):
    def opened(self, stage: Stage) -> Callable[[], Cost]:
        project = stage.project(stage.folder(), "")
        return lambda: project.run("--help", expect="Usage: ")

    def __str__(self) -> str:
        return "--help"


@dataclass(frozen=True)
class Validate(Program):
    world: World

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        project = stage.recorded(self.world)
        return lambda: project.run("validate", expect="Valid: ")

    def __str__(self) -> str:
        return f"validate of {self.world}"


@dataclass(frozen=True)
class Plan(Program):
    """`delay_s`: how long the platform takes for an answer. `round_trip_s`: see `Link`."""

    world: World
    delay_s: float = 0.0
    https: bool = False
    round_trip_s: float = 0.0

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        certificate = stage.certificate() if self.https else ""
        project = stage.recorded(self.world, Link(self.delay_s, self.round_trip_s, certificate))
        project.calls()  # of a run that was cut off

        def run() -> Cost:
            cost = project.run("plan", expect=self.world.verdict)
            if (calls := project.calls()) != self.world.calls:
                raise CouldNotRun(f"{self} took {calls} HTTP calls instead of {self.world.calls}")
            return cost

        return run

    def __str__(self) -> str:
        secure = " over https" if self.https else ""
        away = f", {self.round_trip_s * 1000:g} ms away" if self.round_trip_s else ""
        delay = f", {self.delay_s * 1000:g} ms an answer" if self.delay_s else ""
        return f"plan of {self.world}{secure}{away}{delay}"


@dataclass(frozen=True)
class ChangedPlan(Program):
    """A plan of what differs from the last commit: one volume."""

    world: World

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        root = stage.written(self.world)
        for words in (["init", "-q"], ["add", "."], [*_COMMIT, "-m", "all"]):
            subprocess.run(["git", *words], cwd=root, check=True)
        change_retention(root, 40)
        project = stage.project(root, stage.enter(stage.platform(self.world)))
        return lambda: project.run("plan", "--changed-since", "HEAD", expect="Plan: 1 to update")

    def __str__(self) -> str:
        return f"plan of one changed of {self.world}"


@dataclass(frozen=True)
class Apply(Program):
    """The first apply of a new world to a new sandbox: an intent and an outcome durable for each volume."""

    world: World

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        return lambda: self._run(stage)

    def _run(self, stage: Stage) -> Cost:
        root = stage.folder()
        write_manifests(root, self.world)
        with stage.sandbox(root, self.world.apps) as platform:
            project = stage.project(root, platform, "sandbox")
            project.run("state", "init")
            done = f"Applied: {self.world.size} done."
            cost = project.run("apply", "--auto-approve", expect=done)
            with urlopen(f"{platform}/_sandbox/world") as answer:
                made = len(json.load(answer)["volumes"])
        if made != self.world.size:
            raise CouldNotRun(f"{self} made {made} volumes")
        return cost

    def __str__(self) -> str:
        return f"apply of {self.world}"


@dataclass(frozen=True)
class Import(Program):
    """An import of volumes that nobody declares yet, into a file for each app."""

    world: World

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        platform = stage.enter(stage.platform(self.world))
        apps = [app_name(app) for app in range(self.world.apps)]
        expect = f"Imported: {self.world.size} objects in {len(apps)} files."
        return lambda: stage.project(stage.folder(), platform).run("import", *apps, expect=expect)

    def __str__(self) -> str:
        return f"import of {self.world}"


@dataclass(frozen=True)
class Report(Program):
    """A report of so many changes from the import of its format on: of a plan or of drift, what is dearer."""

    format: str
    size: int

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        return lambda: self._run(stage)

    def _run(self, stage: Stage) -> Cost:
        seconds, mib = [], []
        for kind in ("plan", "drift"):
            found = json.loads(stage.python("bench.reports", self.format, kind, str(self.size)).output)
            seconds.append(found["seconds"])
            mib.append(found["mib"])
        return Cost(max(seconds), max(seconds), max(mib), "")

    def __str__(self) -> str:
        return f"report of {self.size:,} as {self.format}"


@dataclass(frozen=True)
class Judge(Program):
    """What a rule takes for a change that it selects, one in ten; wall and CPU are microseconds of CPU."""

    size: int
    rules: int

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        return lambda: self._run(stage)

    def _run(self, stage: Stage) -> Cost:
        us = json.loads(stage.python("bench.judging", str(self.size), str(self.rules)).output)["us"]
        return Cost(us, us, 0.0, "")

    def __str__(self) -> str:
        return f"a rule, of {self.rules} over {self.size:,} changes"


@dataclass(frozen=True)
class Ideal(Program):
    """What must be waited for, whoever plans or applies: nothing is run."""

    wait_s: float
    ours: ClassVar = False

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        return lambda: Cost(self.wait_s, 0.0, 0.0, "")

    def __str__(self) -> str:
        return "the waits alone"

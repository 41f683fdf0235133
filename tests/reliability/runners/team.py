"""Rounds of a team, and the count at the end of each: the platform's world, the records, the exit codes."""

import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.sandbox.parts.secret import holds
from reconciler.services.machines.wire.volume import GONE_STATES
from tests.cli.harness import Project, Ran, Sandbox, environment, secret, serving, volume
from tests.reliability.proof import Tally
from tests.reliability.runners.cable import Cable, laid
from tests.reliability.runners.job import HARMS, Fate, Harm, Job, started
from tests.reliability.shared import Place, Server

RUNNERS = 3
APPS = ("orders", "search", "web")
LEASE_S = 5.0
DEADLINE_S = 4.0
SETTLE_S = 3.0  # longer than the platform holds a call back, also on a machine that is busy
HELD_BACK_S = 0.1  # each mutation, before it is carried out
MOST_TRIES = 12  # of jobs without harm, until all is done
CLOCKS_S = (-300, 0, 300)

_DONE, _FAILED, _PENDING, _LOCKED = 0, 1, 4, 5
_KILLED = -9


@dataclass
class Team:
    """Plays rounds on one platform and one state. `clocks`: those of the runners' machines are wrong."""

    sandbox: Sandbox
    server: Server
    place: Place
    folder: Path
    chance: random.Random
    tally: Tally
    clocks: bool = False
    _jobs: int = 0
    _revision: int = 0

    def begin(self) -> None:
        for app in APPS:
            self.sandbox.app(app)
        self.sandbox.fault("*", "/v1/*", "delay", delay_s=HELD_BACK_S, before=True, times=None)
        self._look("state", "init")

    def round(self, harms: Sequence[Harm]) -> None:
        """All runners apply the next revision at once, and `harms` happen; then jobs that nothing harms."""
        self._revision += 1
        self.tally.counts["rounds"] += 1
        with ExitStack() as stack:
            cables = [stack.enter_context(laid(self.server.address)) for _ in harms]
            jobs = [
                self._started(cable, self._fate(number, harm))
                for number, (cable, harm) in enumerate(zip(cables, harms, strict=True))
            ]
            for job in jobs:
                self._judge(job, job.ended())
            self._finish(cables[0])
        self._count()

    def _fate(self, number: int, harm: Harm) -> Fate:
        for_s = self.chance.choice([0.5, 1.5]) * LEASE_S
        return Fate(
            harm,
            calls=self.chance.randrange(12),
            then_s=self.chance.random() * 0.3,
            for_s=max(for_s, 1.5 * LEASE_S) if harm == "stopped" else for_s,
            clock_s=CLOCKS_S[number % len(CLOCKS_S)] if self.clocks else 0,
        )

    def _finish(self, cable: Cable) -> None:
        """New jobs, one after the other, until one says that all is done."""
        for _ in range(MOST_TRIES):
            job = self._started(cable, Fate(clock_s=self.chance.choice(CLOCKS_S) if self.clocks else 0))
            ran = job.ended()
            self._judge(job, ran)
            if ran is None or ran.code == _DONE:
                return
        self.tally.violations.append(f"revision {self._revision}: not done after {MOST_TRIES} more jobs")

    def _started(self, cable: Cable, fate: Fate) -> Job:
        self._jobs += 1
        self.tally.counts["jobs"] += 1
        return started(
            self.folder / f"job-{self._jobs}", self._files(cable), self._variables(cable), cable, fate
        )

    def _judge(self, job: Job, ran: Ran | None) -> None:
        """By its exit code and words, and by the world where it says that all is done."""
        tally, name = self.tally, f"revision {self._revision}, {job.fate}"
        if job.harmed:
            tally.counts[f"jobs {job.fate.harm}"] += 1
        if ran is None:
            tally.violations.append(f"{name}: did not end")
            return
        tally.counts[f"exit {ran.code}"] += 1
        if "Traceback" in ran.err or "panicked" in ran.err:
            tally.violations.append(f"{name}: {ran.err[-20000:]}")
        if ran.code == _DONE:
            tally.violations += [f"{name}: exit 0, but {each}" for each in self._missing()]
        elif ran.code not in (_FAILED, _PENDING, _LOCKED, _KILLED):
            tally.violations.append(f"{name}: exit {ran.code}: {(ran.err + ran.out)[-20000:]}")

    def _missing(self) -> Iterator[str]:
        """What this revision wants and the platform does not have."""
        world = self.sandbox.call("GET", "/_sandbox/world")
        for app in APPS:
            there = list(_live(world, app))
            for name, (count, size_gb, retention) in _volumes(self._revision).items():
                right = [
                    each
                    for each in there
                    if (each["name"], each["size_gb"], each["snapshot_retention"])
                    == (name, size_gb, retention)
                ]
                if len(right) < count:
                    yield f"{app} has {len(right)} of {count} volumes `{name}` as they should be"
            values = {each["name"]: each["fingerprint"] for each in world["secrets"] if each["app"] == app}
            if not holds(values.get("KEY", ""), str(self._revision)):
                yield f"{app} has another secret"

    def _count(self) -> None:
        """Nothing twice, nothing that no record knows, nothing left to do, a state that is whole."""
        plan = self._look("plan", "--detailed-exitcode", "--output", "json", code=None)
        if plan.code != _DONE:
            self.tally.violations.append(
                f"revision {self._revision}: plan ends with {plan.code}: {plan.out[-1500:]}"
            )
        records = self._look("state", "list", "--output", "json").json["records"]
        known = Counter(each["id"] for each in records if each["address"].startswith("Volume/"))
        world = self.sandbox.call("GET", "/_sandbox/world")
        live = {each["id"]: each for app in APPS for each in _live(world, app)}
        wanted = len(APPS) * sum(count for count, _, _ in _volumes(self._revision).values())
        if sum(known.values()) != wanted or len(known) != wanted or not known.keys() <= live.keys():
            self.tally.violations.append(f"revision {self._revision}: {known} recorded, {wanted} wanted")
        for id in live.keys() - known.keys():
            told = id in plan.out
            self.tally.counts["duplicates told"] += told
            if not told:
                self.tally.violations.append(
                    f"revision {self._revision}: {live[id]} is in no record, nor in the plan"
                )

    def end(self) -> None:
        """The whole state is verified."""
        examined = json.loads(self._look("doctor", "--probe-state", "-o", "json", code=None).out)
        self.tally.violations += [
            f"revision {self._revision}: {check['name']}: {check['message']}"
            for check in examined["checks"]
            if check["name"] in ("store", "state") and check["outcome"] != "ok"
        ]

    def _look(self, *arguments: str, code: int | None = 0) -> Ran:
        """A verb on a machine that nothing happens to."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder, laid(self.server.address) as cable:
            project = Project(Path(folder), environment(None, **self._variables(cable)))
            for name, text in self._files(cable).items():
                project.write(text, name)
            return project.run(*arguments, code=code)

    def _variables(self, cable: Cable) -> dict[str, str]:
        found = {**self.place.variables, "RECONCILE_SETTLE_S": str(SETTLE_S), "KEY": str(self._revision)}
        if "AWS_ENDPOINT_URL" in found:
            found["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{cable.port}"
        return found

    def _files(self, cable: Cable) -> Mapping[str, str]:
        host, port = self.server.address
        url = self.place.url.replace(f"{host}:{port}", f"127.0.0.1:{cable.port}")
        settings = (
            f"platform: {{base_url: '{self.sandbox.url}'}}\nstate: '{url}'\nmanifests: [manifests]\n"
            f"execution: {{lease_s: {LEASE_S}, deadline_s: {DEADLINE_S}}}\n"
        )
        manifests = {f"manifests/{app}.yaml": _manifest(app, self._revision) for app in APPS}
        return {"reconcile.yaml": settings, **manifests}


def _volumes(revision: int) -> dict[str, tuple[int, int, int]]:
    """By name: how many, their size in GB and their retention. Each is new once, and changed once."""
    new = {f"data{revision}": (2, 10, 5)} if revision else {}
    return {f"data{number}": (2, 12, 7) for number in range(1, revision)} | new


def _manifest(app: str, revision: int) -> str:
    volumes = [
        volume(app, name, f"region: ams, count: {count}, size_gb: {size}, snapshot_retention: {retention}")
        for name, (count, size, retention) in _volumes(revision).items()
    ]
    return "".join([*volumes, secret(app, "KEY", "env: KEY")])


def _live(world: Mapping[str, Any], app: str) -> Iterator[Mapping[str, Any]]:
    yield from (each for each in world["volumes"] if each["app"] == app and each["state"] not in GONE_STATES)


def play(server: Server, rounds: int, seed: int, *, clocks: bool = False) -> Tally:
    tally, chance = Tally(), random.Random(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="runners-")))
        sandbox = stack.enter_context(serving("--db", str(folder / "sandbox.db")))
        team = Team(sandbox, server, server.new(), folder, chance, tally, clocks)
        team.begin()
        for _ in range(rounds):
            team.round([chance.choice(HARMS) for _ in range(RUNNERS)])
            if tally.violations:
                break
        team.end()
    return tally

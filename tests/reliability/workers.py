"""`python -m tests.reliability.workers`: workers on one state are killed, one by one, while they apply.

Before each kill somebody deploys: a volume grows, which owes a restart of its machine, and at times one is
added. With some of the kills the server also ends all connections, as when it or a pooler starts again. After
it each scope has to be looked at within the dead worker's lease and one tick. In the end all is as declared:
nothing is there twice, and no restart is owed, or was never sent.
"""

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from tests.cli.conftest import project_at
from tests.cli.harness import Sandbox, serving, volume
from tests.providers.postgres import Postgres
from tests.reliability import shared
from tests.reliability.controller import Watcher, Wrong

EVERY_S, LEASE_S = 5.0, 5.0
TICK_S = EVERY_S * 1.1
SLACK_S = 6.0  # looks and starts take their time where all of this shares two processors
CUTS = 0.3  # of the kills
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
SETTINGS = f"""manifests: [manifests]
controller: {{every: {EVERY_S:g}s, mode: apply, apply_impacts: [online, restart]}}
execution: {{lease_s: {LEASE_S:g}, deadline_s: 2}}
"""


class Team:
    """The workers, and what is declared: by app, the size of its volume and the names of others."""

    def __init__(
        self,
        sandbox: Sandbox,
        root: Path,
        place: shared.Place,
        seed: int,
        apps: int,
        workers: int,
    ) -> None:
        self.sandbox, self.random, self.place = sandbox, random.Random(seed), place
        self.project = project_at(root / "project", sandbox.url)
        self.project.env |= {**place.variables, "RECONCILE_CAPABILITIES": "extended"}
        self.project.write(f"{SETTINGS}state: {{url: '{place.url}'}}\n", "reconcile.yaml")
        self.project.run("state", "init")
        self.sizes = {sandbox.app(f"app{number}"): 10 for number in range(apps)}
        self.more = Counter[str]()
        for app in self.sizes:
            self.write(app)
        self.project.apply()
        for app in self.sizes:
            sandbox.machine(app, self.volume(app)["id"])
        self.workers = [Watcher(self.project, "--worker") for _ in range(workers)]

    def write(self, app: str) -> None:
        text = volume(app, "data", f"region: ams, size_gb: {self.sizes[app]}", "lifecycle: {restart: auto}\n")
        text += "".join(volume(app, f"more{number}") for number in range(self.more[app]))
        self.project.write(text, f"manifests/{app}.yaml")

    def volume(self, app: str) -> dict[str, str]:
        (found,) = (each for each in self.sandbox.volumes(app) if each["name"] == "data")
        return found

    def deploy(self) -> None:
        for app in self.random.sample(sorted(self.sizes), 2):
            self.sizes[app] += 5
            self.more[app] += self.random.random() < 0.2
            self.write(app)

    def kill(self) -> float:
        """Kill one, perhaps while it sends; seconds until each scope was looked at again."""
        self.deploy()
        time.sleep(self.random.uniform(0, EVERY_S))
        worker = self.random.choice(self.workers)
        worker.kill()
        if isinstance(self.place, shared.Database) and self.random.random() < CUTS:
            Postgres(self.place.whole).rows(CUT)
        killed_s = time.time()
        worker.begin()
        return self.looked_after(killed_s) - killed_s

    def looked_after(self, since_s: float) -> float:
        """When the last of all scopes was looked at for the first time since then. Raises Wrong."""
        latest = dict.fromkeys(self.sizes, 0.0)
        while time.time() < since_s + LEASE_S + TICK_S + SLACK_S:
            for worker in self.workers:
                for scope, at_s in worker.successes().items():
                    if at_s > since_s and not latest[scope]:
                        latest[scope] = at_s
            if all(latest.values()):
                return max(latest.values())
            time.sleep(0.1)
        late = {scope for scope, at_s in latest.items() if not at_s}
        raise Wrong(f"not looked at within a lease and a tick: {sorted(late)}")

    def settle(self) -> None:
        """Wait until all is in sync; check that it really is."""
        ends_s = time.monotonic() + 60
        while any({*worker.statuses().values()} != {"in-sync"} for worker in self.workers):
            if time.monotonic() > ends_s:
                raise Wrong(f"not in sync: {[worker.statuses() for worker in self.workers]}")
            time.sleep(0.1)
        for app, size_gb in self.sizes.items():
            there = sorted((each["name"], each["size_gb"]) for each in self.sandbox.volumes(app))
            wanted = [("data", size_gb), *(("more" + str(number), 10) for number in range(self.more[app]))]
            if there != sorted(wanted):
                raise Wrong(f"{app}: {there} are there, {wanted} are declared")
        waiting = [
            each["id"]
            for each in self.sandbox.call("GET", "/_sandbox/world")["machines"]
            if each["pending_restart"]
        ]
        if waiting:
            raise Wrong(f"the restarts of {waiting} were never sent")
        for worker in self.workers:
            broken = [each["text"] for each in worker.told if each["event"] == "defect"]
            if broken:
                raise Wrong("".join(broken))
            worker.told.clear()


@contextmanager
def playing(state: str, seed: int, apps: int, workers: int) -> Iterator[Team]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="workers-")))
        server = shared.server(state, stack)
        assert server is not None
        sandbox = stack.enter_context(
            serving("--profile", "extended", "--clock", "x5", "--switch", "extend_needs_restart=attached")
        )
        team = Team(sandbox, folder, server.new(), seed, apps, workers)
        try:
            yield team
        finally:
            codes = [worker.end() for worker in team.workers]
        if any(codes):
            raise Wrong(f"the workers ended with {codes}")


@click.command()
@click.option("--kills", default=200, show_default=True)
@click.option("--workers", default=4, show_default=True)
@click.option("--apps", default=12, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--state", default=shared.NEW_SERVER, show_default=True)
def command(kills: int, workers: int, apps: int, seed: int, state: str) -> None:
    """Play it. Exits with 1 where a scope waited too long, or the world is not as declared."""
    began_s, waits = time.monotonic(), list[float]()
    try:
        with playing(state, seed, apps, workers) as team:
            for number in range(kills):
                waits.append(team.kill())
                if number % 10 == 9:
                    team.settle()
            team.settle()
    except Wrong as wrong:
        click.echo(f"seed {seed}, after {len(waits)} kills: {wrong}")
        sys.exit(1)
    middle, most = sorted(waits)[len(waits) // 2], max(waits)
    click.echo(f"{kills} kills of {workers} workers, {apps} scopes: nothing twice, nothing owed")
    click.echo(f"all looked at again after {middle:.1f} s in the middle, {most:.1f} s at most")
    click.echo(f"{time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    command()

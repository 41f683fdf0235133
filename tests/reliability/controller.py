"""`python -m tests.reliability.controller`: a week with two controllers, and everything that happens in one.

Two processes of `reconcile controller` watch the same apps on the sandbox's clock. After each event (somebody
edits by hand, deploys, suspends, takes the token away, a process is killed …) both have to arrive at the
status that is true. Until then only statuses may be told that the event explains; of other apps none may
change. In the end no object is there twice, and nothing was deleted that nobody signed.
"""

import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

import click
from prometheus_client.parser import text_string_to_metric_families

from tests.approvals.people import Person, make
from tests.cli.conftest import project_at
from tests.cli.harness import Project, Sandbox, serving, volume

PATIENCE_S = 90.0
HOURS = (0.25, 3.0)  # between two events
SETTINGS = "manifests: [manifests]\ncontroller: {every: 1s, mode: apply}\n"
BLIND = {"unknown", "suspended", "locked"}  # a look could not tell, or there was none
LOOK_S = 3.0  # more than a look takes
ACTING = {"changes", "applying", "locked", "question", "proposed", "in-sync"}


class Wrong(AssertionError):
    """A status that is not true, or an object that must not be there."""


class Watcher:
    """One controller process, restarted where it was killed, and all that it told."""

    def __init__(self, project: Project, *options: str) -> None:
        self.project, self._options = project, options
        self.told: list[dict[str, Any]] = []
        self.begin()

    def begin(self) -> None:
        self._stack = ExitStack()
        started = self.project.started("controller", "--listen", "127.0.0.1:0", *self._options)
        self.process = self._stack.enter_context(started).process
        lines = iter(self.process.stderr or ())
        self.url = json.loads(next(lines))["url"]
        Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.told.append(json.loads(line) if line.startswith("{") else {"event": "defect", "text": line})

    def statuses(self, since: float = 0.0) -> dict[str, str]:
        """By scope; "" where the last look that could tell began before `since`."""
        samples = self._samples()
        looked = _successes(samples)
        found = {
            each.labels["scope"]: each.labels["status"]
            for each in samples
            if each.name == "reconciler_scope_status"
        }
        return {
            scope: status if status in BLIND or looked[scope] > since else ""
            for scope, status in found.items()
        }

    def successes(self) -> dict[str, float]:
        """When each scope was last looked at and could be read, as far as it knows."""
        return _successes(self._samples())

    def _samples(self) -> list[Any]:
        with urlopen(f"{self.url}/metrics") as answer:
            text = answer.read().decode()
        return [each for family in text_string_to_metric_families(text) for each in family.samples]

    def kill(self) -> None:
        self.process.kill()
        self._stack.close()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(15)
        self._stack.close()
        return code


def _successes(samples: list[Any]) -> dict[str, float]:
    name = "reconciler_scope_last_success_timestamp_seconds"
    return {each.labels["scope"]: each.value for each in samples if each.name == name}


class Week:
    """The apps, what is true of them, and the events."""

    def __init__(self, sandbox: Sandbox, root: Path, person: Person, seed: int, apps: int) -> None:
        self.sandbox, self.random, self.person = sandbox, random.Random(seed), person
        self.project = project_at(root / "project", sandbox.url)
        self.project.write(SETTINGS, "reconcile.yaml")
        self.project.write(person.line(), "allowed_signers")
        self.sizes = {sandbox.app(f"app{number}"): 10 for number in range(apps)}
        self.extras: dict[str, list[str]] = {app: [] for app in self.sizes}
        self.true = dict.fromkeys(self.sizes, "in-sync")
        self.unsigned = Counter[str]()
        self.made = 0
        for app in self.sizes:
            self.write(app)
        self.project.apply()
        self.watchers = [Watcher(self.project) for _ in range(2)]

    def write(self, app: str) -> None:
        text = volume(app, "data", f"region: ams, size_gb: {self.sizes[app]}, snapshot_retention: 14")
        for name in self.extras[app]:
            text += volume(app, name) + "lifecycle: {deletion: delete}\n"
        self.project.write(text, f"manifests/{app}.yaml")

    def data(self, app: str) -> dict[str, Any]:
        (found,) = (each for each in self.sandbox.volumes(app) if each["name"] == "data")
        return found

    def quiet(self) -> str:
        """An app about which nothing is open; "" for none."""
        found = [app for app, status in self.true.items() if status == "in-sync"]
        return self.random.choice(found) if found else ""

    def having(self, status: str) -> str:
        found = [app for app, each in self.true.items() if each == status]
        return self.random.choice(found) if found else ""

    # --- the events: each says of which apps it may tell what, besides what is true in the end ---

    def deploys(self) -> dict[str, set[str]]:
        app = self.quiet()
        if app:
            self.sizes[app] += 5
            self.write(app)
        return {app: ACTING}

    def grows_by_hand(self) -> dict[str, set[str]]:
        app = self.quiet()
        if app:
            self.sandbox.edit_volume(self.data(app)["id"], size_gb=self.sizes[app] + 7)
            self.true[app] = "drifted"
        return {app: set()}

    def accepts_what_was_grown(self) -> dict[str, set[str]]:
        app = self.having("drifted")
        if app:
            self.sizes[app] = self.data(app)["size_gb"]
            self.write(app)
            self.true[app] = "in-sync"
        return {app: ACTING | {"drifted"}}

    def changes_retention_by_hand(self) -> dict[str, set[str]]:
        app = self.quiet()
        if app:
            self.sandbox.edit_volume(self.data(app)["id"], snapshot_retention=3)
        return {app: ACTING | {"drifted"}}

    def adds_and_the_answer_is_lost(self) -> dict[str, set[str]]:
        app = self.quiet()
        if app:
            self.made += 1
            action = self.random.choice(["drop_after", "drop_before"])
            self.sandbox.fault("POST", f"/v1/apps/{app}/volumes", action)
            self.extras[app].append(f"extra{self.made}")
            self.write(app)
        return {app: ACTING}

    def removes(self) -> dict[str, set[str]]:
        app = self.quiet()
        if app and self.extras[app]:
            self.extras[app].pop()
            self.write(app)
            self.true[app] = "proposed"
            return {app: {"changes"}}
        return {}

    def signs(self) -> dict[str, set[str]]:
        app = self.having("proposed")
        if not app:
            return {}
        proposals = self.project.root.glob(f".reconcile/controller/proposals/{app}.*.plan.json")
        key = str(self.person.key)
        for proposal in proposals:
            self.project.run("approve", str(proposal), "--yes", "--reason", "week", "--key", key)
        self.true[app] = "in-sync"
        return {app: ACTING}

    def suspends(self) -> dict[str, set[str]]:
        app = self.quiet()
        if app:
            self.project.run("controller", "suspend", app, "--reason", "week")
            self.true[app] = "suspended"
        return {app: set()}

    def resumes(self) -> dict[str, set[str]]:
        app = self.having("suspended")
        if app:
            self.project.run("controller", "resume", app)
            self.true[app] = "in-sync"
        return {app: set()}

    def is_away(self) -> dict[str, set[str]]:
        """An outage, or a token that expired. While it lasts, nothing is told but that nothing is known."""
        status = self.random.choice([503, 401])
        self.sandbox.fault("GET", "/v1/*", "status", status=status, times=None)
        before, self.true = (
            self.true,
            {app: "suspended" if each == "suspended" else "unknown" for app, each in self.true.items()},
        )
        self.settle(f"is away ({status})", {})
        self.sandbox.clear_faults()
        self.true = before
        return {app: {"changes"} if each == "proposed" else set() for app, each in before.items()}

    def is_killed(self) -> dict[str, set[str]]:
        """A controller dies, perhaps while it sends, and another one takes its place."""
        allowed = self.deploys() if self.random.random() < 0.7 else {}
        time.sleep(self.random.uniform(0, 2))
        watcher = self.random.choice(self.watchers)
        watcher.kill()
        watcher.begin()
        return {app: {*ACTING, *allowed.get(app, ())} for app in self.sizes}

    def person_applies(self) -> dict[str, set[str]]:
        allowed = self.deploys()
        self.project.apply("--lock-timeout", "60", code=None)
        return allowed

    # --- checks ---

    def settle(self, event: str, allowed: dict[str, set[str]]) -> None:
        """Wait until both controllers say what is true; refuse what else they told meanwhile."""
        ends_s, since = time.monotonic() + PATIENCE_S, time.time() + LOOK_S
        while any(watcher.statuses(since) != self.true for watcher in self.watchers):
            if time.monotonic() > ends_s:
                told = [watcher.statuses() for watcher in self.watchers]
                raise Wrong(f"{event}: true is {self.true}, they say {told}")
            time.sleep(0.1)
        both = [watcher.told for watcher in self.watchers]
        for watcher in self.watchers:
            watcher.told = []
        for told in both:
            for each in told:
                if each["event"] == "defect":
                    raise Wrong(f"{event}: {each['text']}")
                if each["event"] == "scope.changed":
                    app, status = each["scope"], each["status"]
                    # A run that only records what an earlier event left may come later, and sends nothing.
                    if status not in {self.true[app], "applying", *allowed.get(app, ())}:
                        log = "\n".join(json.dumps(line) for one in both for line in one)
                        raise Wrong(f"{event}: {app} was told to be {status} ({each['reason']})\n{log}")

    def check_world(self) -> None:
        for app, names in self.extras.items():
            there = [each["name"] for each in self.sandbox.volumes(app) if each["state"] == "created"]
            twice = [name for name, number in Counter(there).items() if number > 1]
            if twice:
                raise Wrong(f"{app}: {twice} are there twice")
            wanted = {"data", *names}
            if self.true[app] == "in-sync" and {*there} != wanted:
                raise Wrong(f"{app}: {sorted(there)} are there, {sorted(wanted)} are declared")
            if not wanted <= {*there}:
                raise Wrong(f"{app}: {sorted(wanted - {*there})} is gone, and nobody signed that")

    def play(self, days: float) -> Counter[str]:
        """Events until the sandbox's clock is `days` further; how often each was."""
        events: list[Callable[[], dict[str, set[str]]]] = [
            self.deploys,
            self.grows_by_hand,
            self.accepts_what_was_grown,
            self.changes_retention_by_hand,
            self.adds_and_the_answer_is_lost,
            self.removes,
            self.signs,
            self.suspends,
            self.resumes,
            self.is_away,
            self.is_killed,
            self.person_applies,
        ]
        played, hours = Counter[str](), 0.0
        self.settle("the beginning", dict.fromkeys(self.sizes, ACTING))
        while hours < 24 * days:
            event = self.random.choice(events)
            allowed = event()
            self.settle(event.__name__, allowed)
            self.check_world()
            played[event.__name__] += 1
            step = self.random.uniform(*HOURS)
            self.sandbox.advance(step * 3600)
            hours += step
        self.settle("the end", {})
        return played


@contextmanager
def playing(seed: int, apps: int) -> Iterator[Week]:
    folder = Path(tempfile.mkdtemp(prefix="week-"))
    try:
        with serving("--clock", "x600") as sandbox:
            week = Week(sandbox, folder, make(folder, "ana"), seed, apps)
            try:
                yield week
            finally:
                codes = [watcher.end() for watcher in week.watchers]
            if any(codes):
                raise Wrong(f"the controllers ended with {codes}")
    finally:
        shutil.rmtree(folder)


@click.command()
@click.option("--days", default=7.0, show_default=True)
@click.option("--apps", default=4, show_default=True)
@click.option("--seed", default=1, show_default=True)
def command(days: float, apps: int, seed: int) -> None:
    """Play it. Exits with 1 where a status was not true, or something happened that nobody allowed."""
    began_s = time.monotonic()
    try:
        with playing(seed, apps) as week:
            played = week.play(days)
    except Wrong as wrong:
        click.echo(f"seed {seed}: {wrong}")
        sys.exit(1)
    told = ", ".join(f"{name} {number}" for name, number in sorted(played.items()))
    click.echo(f"seed {seed}: {days:g} days, {sum(played.values())} events, 2 controllers: all true ({told})")
    click.echo(f"{time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    command()

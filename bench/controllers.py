"""What running by itself takes: `python -m bench.controllers [--quick]`.

One controller with nothing to do, and workers that share the scopes of a state in PostgreSQL. Prints one
table; see README.md.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from bench.places import Place, main
from bench.processes import CouldNotRun, Process, start
from bench.stage import RECONCILE, Project, Stage
from bench.table import Row
from bench.worlds.manifests import write_manifests
from bench.worlds.world import World

SCOPES, WORKERS = 1_000, 4
_POLL_S = 5.0  # of a controller, for orders
_IDLE_EVERY_S, _IDLE_MOST = 600.0, 3.0  # percent of a core
_SHARED_EVERY_S = 60.0
_ANSWERS_AFTER_S = 0.02
_PATIENCE_S = 120.0


class Controller:
    """A controller that runs. `process`: its own."""

    def __init__(self, process: Process, url: str) -> None:
        self._process, self._url = process, url

    def successes(self) -> dict[str, float]:
        """By scope, when it was last looked at: seconds since 1970."""
        with urlopen(f"{self._url}/metrics") as answer:
            text = answer.read().decode()
        found = re.findall(r'last_success_timestamp_seconds\{.*?scope="(.*?)"\} (\S+)', text)
        return {scope: float(at) for scope, at in found}

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) / 1024


def newest(controllers: Sequence[Controller]) -> dict[str, float]:
    """By scope, when the last of them looked at it."""
    looked = [each.successes() for each in controllers]
    return {scope: max(each.get(scope, 0.0) for each in looked) for one in looked for scope in one}


def have_seen_all(controllers: Sequence[Controller], scopes: int) -> None:
    """Wait until each scope was looked at."""
    ends_s = time.monotonic() + _PATIENCE_S
    while (number := len(newest(controllers))) < scopes:
        if time.monotonic() > ends_s:
            raise CouldNotRun(f"{len(controllers)} controllers looked at {number} of {scopes} scopes")
        time.sleep(0.5)


@contextmanager
def controlling(project: Project, every_s: float, *options: str) -> Iterator[Controller]:
    settings = f"manifests: [manifests]\ncontroller: {{every: {every_s:g}s}}\n"
    (project.root / "reconcile.yaml").write_text(settings)
    command = [RECONCILE, "controller", "--listen", "127.0.0.1:0", *options]
    with tempfile.TemporaryFile() as out, tempfile.NamedTemporaryFile() as log:
        process = start(command, project.root, project.variables, out, log.file)
        try:
            yield Controller(process, _listening(Path(log.name)))
        finally:
            os.kill(process.pid, 15)
            os.waitpid(process.pid, 0)


def _listening(log: Path) -> str:
    ends_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < ends_s:
        for line in log.read_text().splitlines():
            told = json.loads(line)
            if told["event"] == "listening":
                return str(told["url"])
        time.sleep(0.1)
    raise CouldNotRun("a controller did not start")


def idle(stage: Stage, scopes: int, rounds: int) -> list[Row]:
    """A controller that finds nothing to do: the CPU of a round and of the looks for orders between two."""
    project = stage.recorded(World(scopes, 1))
    with controlling(project, _POLL_S) as busy:
        have_seen_all([busy], scopes)
        before_s = busy.cpu_s()
        time.sleep(rounds * _POLL_S)
        round_s, peak = (busy.cpu_s() - before_s) / rounds, busy.peak_mib()
    with controlling(project, _IDLE_EVERY_S) as quiet:
        have_seen_all([quiet], scopes)
        time.sleep(_POLL_S)
        before_s = quiet.cpu_s()
        time.sleep(rounds * _POLL_S)
        between = (quiet.cpu_s() - before_s) / (rounds * _POLL_S)
    share = (round_s / _IDLE_EVERY_S + between) * 100
    name = f"controller of {scopes:,} scopes"
    return [
        Row(f"{name}, every 10 min", [share], "% core", _IDLE_MOST),
        Row(f"{name}: memory", [peak], "MiB", 250.0),
    ]


def sharing(stage: Stage, place: Place, scopes: int, rounds: int) -> list[Row]:
    """How old the oldest look is that workers have at any scope."""
    root, world = stage.folder(), World(scopes, 1)
    write_manifests(root, world)
    place.prepare(root.name)
    with stage.sandbox(root, world.apps) as platform:
        project = place.project(stage, root, platform)
        project.run("state", "init")
        project.run("apply", "--auto-approve", expect=f"Applied: {scopes} done.")
        late = {"method": "*", "path": "/v1/*", "action": "delay", "delay_s": _ANSWERS_AFTER_S, "times": None}
        head = {"content-type": "application/json"}
        urlopen(Request(f"{platform}/_sandbox/faults", json.dumps(late).encode(), head)).close()
        with ExitStack() as stack:
            workers = [
                stack.enter_context(controlling(project, _SHARED_EVERY_S, "--worker")) for _ in range(WORKERS)
            ]
            have_seen_all(workers, scopes)
            oldest = [_oldest_s(workers, _SHARED_EVERY_S) for _ in range(rounds)]
    figure = f"{place.name}: {WORKERS} workers, {scopes:,} scopes, every {_SHARED_EVERY_S:g} s: oldest look"
    return [Row(figure, oldest, "s", 1.2 * _SHARED_EVERY_S)]


def _oldest_s(workers: Sequence[Controller], for_s: float) -> float:
    """The most that lay between two looks at a scope, or lies since its last one."""
    ends_s, most_s = time.time() + for_s, 0.0
    while time.time() < ends_s:
        looked = newest(workers)
        most_s = max(most_s, time.time() - min(looked.values()))
        time.sleep(1.0)
    return most_s


def rows(stage: Stage, kept: Sequence[Place], quick: bool) -> list[Row]:
    scopes, rounds = (100, 2) if quick else (SCOPES, 6)
    return [*idle(stage, scopes, rounds), *sharing(stage, kept[1], scopes, rounds)]


if __name__ == "__main__":
    sys.exit(main("bench.controllers", "Measure controllers.", rows))

"""What is measured: each function runs one comparison and gives its rows of the table.

Both programs take turns, so that whatever else the machine does meets both alike; the
figures are medians.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.request import urlopen

from bench import terraform, workload
from bench.processes import RECONCILE, Cost, CouldNotRun, run, serving
from bench.table import Count, Row
from reconciler.reports.formats import find_formats

_REPOSITORY = Path(__file__).parents[1]


def planning(folder: Path, size: int, runs: int, *, most_time: float, most_memory: float | None) -> list[Row]:
    """A plan that finds nothing to do, ours with HTTP and Terraform's without."""
    ours, peers, calls = [], [], []
    project, blocks = folder / f"project-{size}", folder / f"blocks-{size}"
    _prepare("terraform", size, blocks)
    with _platform(project, size) as url:
        for _ in range(runs):
            peers.append(terraform.plan(blocks))
            ours.append(_plan(project, url, size))
            calls.append(_calls_since(url))
    rows = [
        Row(f"plan of {size:,}: time", _wall_s(ours), "s", most_time, _wall_s(peers)),
        Count(f"plan of {size:,}: HTTP calls", median(calls), "", 1, workload.calls_for(size)),
    ]
    if most_memory is not None:
        rows.append(Row(f"plan of {size:,}: peak memory", _peak_mb(ours), "MB", most_memory, _peak_mb(peers)))
    return rows


def growth(folder: Path, small: int, large: int, runs: int, *, most: float) -> list[Row]:
    """What one resource costs in a large plan, against what it costs in a small one. Ours alone."""
    each_us = {}
    calls = 0
    for size in (small, large):
        project = folder / f"project-{size}"
        with _platform(project, size) as url:
            costs = [_plan(project, url, size) for _ in range(runs)]
            calls = _calls_since(url) // runs
        each_us[size] = _wall_s(costs) / workload.resources_in(size) * 1e6
    return [
        Row(
            f"plan of {large:,}: time a resource, against {small:,}",
            each_us[large],
            "us",
            most,
            each_us[small],
        ),
        Count(f"plan of {large:,}: HTTP calls", calls, "", 1, workload.calls_for(large)),
    ]


def creating(folder: Path, size: int, runs: int, *, most: float) -> list[Row]:
    """The first apply, ours against the sandbox: journal on, an intent and an outcome durable for each."""
    ours, peers = [], []
    for number in range(runs):
        blocks, project = folder / f"new-blocks-{number}", folder / f"new-project-{number}"
        terraform.prepare(blocks, size)
        peers.append(terraform.apply(blocks, size))
        workload.write_manifests(project / "manifests", size, with_clusters=False)
        ours.append(_apply(project, size))
    return [Row(f"first apply of {size:,}: time", _wall_s(ours), "s", most, _wall_s(peers))]


def starting(folder: Path, runs: int, *, most_help_s: float, most_validate_s: float) -> list[Row]:
    """CPU seconds of the commands that people type most and editors run on each save."""
    project = folder / "project-start"
    workload.write_manifests(project / "manifests", workload.VOLUMES_PER_APP, with_clusters=False)
    (file,) = (project / "manifests").iterdir()
    helps = [run([*RECONCILE, "--help"], project) for _ in range(runs)]
    validations = [run([*RECONCILE, "validate", str(file)], project, expect="Valid: ") for _ in range(runs)]
    return [
        Row("reconcile --help: CPU", _cpu_s(helps), "s", most_help_s),
        Row("reconcile validate, one file: CPU", _cpu_s(validations), "s", most_validate_s),
    ]


def importing(folder: Path, size: int, runs: int, *, most_s: float) -> list[Row]:
    """An import of volumes that nobody declares yet into a file for each app. Ours alone."""
    apps = [workload.app_name(app) for app in workload.apps(size)]
    costs, calls = [], []
    with serving([sys.executable, "-m", "bench.platform", str(size)], _REPOSITORY) as url:
        env = {"RECONCILE_BASE_URL": url, "RECONCILE_TOKEN": "bench"}
        for number in range(runs):
            project = folder / f"import-{size}-{number}"
            project.mkdir()
            expect = f"Imported: {size} objects in {len(apps)} files."
            costs.append(run([*RECONCILE, "import", *apps], project, env, expect=expect))
            calls.append(_calls_since(url))
    return [
        Row(f"import of {size:,}: time", _wall_s(costs), "s", most_s),
        Count(f"import of {size:,}: HTTP calls", median(calls), "", 1, len(apps)),
    ]


def reporting(size: int, runs: int, *, most_s: float, most_mib: float) -> list[Row]:
    """A report of as many changes in each format, above the plan itself: the dearer of plan and drift."""
    rows = []
    for name in find_formats():
        costs = [[_report(name, kind, size) for _ in range(runs)] for kind in ("plan", "drift")]
        seconds = max(median(cost["seconds"] for cost in each) for each in costs)
        mib = max(median(cost["mib"] for cost in each) for each in costs)
        rows.append(Row(f"report of {size:,} as {name}: CPU", seconds, "s", most_s))
        rows.append(Row(f"report of {size:,} as {name}: memory", mib, "MiB", most_mib))
    return rows


def _report(name: str, kind: str, size: int) -> dict[str, float]:
    ran = run([sys.executable, "-m", "bench.reports", name, kind, str(size)], _REPOSITORY)
    found: dict[str, float] = json.loads(ran.output)
    return found


@contextmanager
def _platform(project: Path, size: int) -> Iterator[str]:
    """The static platform for `size` volumes; the project that knows them all is written once."""
    if not project.exists():
        _prepare("workload", size, project)
    with serving([sys.executable, "-m", "bench.platform", str(size)], _REPOSITORY) as url:
        yield url


def _prepare(module: str, size: int, folder: Path) -> None:
    """In a process of its own: the most that a parent ever held counts as its children's peak memory."""
    run([sys.executable, "-m", f"bench.{module}", str(size), str(folder)], _REPOSITORY)


def _plan(project: Path, url: str, size: int) -> Cost:
    env = {"RECONCILE_BASE_URL": url, "RECONCILE_TOKEN": "bench"}
    return run(
        [*RECONCILE, "plan"], project, env, expect=f"No changes: {workload.resources_in(size)} resources"
    )


def _calls_since(url: str) -> int:
    with urlopen(f"{url}/calls") as answer:
        return int(answer.read())


def _apply(project: Path, size: int) -> Cost:
    seed = project / "seed.json"
    seed.write_text(json.dumps({"apps": [{"name": workload.app_name(app)} for app in workload.apps(size)]}))
    command = [*RECONCILE, "sandbox", "--db", "sandbox.db", "--seed", str(seed)]
    with serving(command, project) as url:
        env = {"RECONCILE_BASE_URL": url, "RECONCILE_TOKEN": "sandbox"}
        cost = run([*RECONCILE, "apply", "--auto-approve"], project, env, expect=f"Applied: {size} done.")
        with urlopen(f"{url}/_sandbox/world") as answer:
            made = len(json.load(answer)["volumes"])
    if made != size:
        raise CouldNotRun(f"apply made {made} volumes instead of {size}")
    return cost


def _wall_s(costs: list[Cost]) -> float:
    return median(cost.wall_s for cost in costs)


def _cpu_s(costs: list[Cost]) -> float:
    return median(cost.cpu_s for cost in costs)


def _peak_mb(costs: list[Cost]) -> float:
    return median(cost.peak_mb for cost in costs)

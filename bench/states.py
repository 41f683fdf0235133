"""What a state costs where it is kept: `python -m bench.states [--quick]`.

Each figure is that of a store against that of the file on the same machine, in turns, or that of a large
state against that of a small one. Prints one table; see README.md.
"""

import argparse
import compileall
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import anyio

from bench import journals, workload
from bench.places import REPOSITORY, Place, Project, places
from bench.processes import RECONCILE, CouldNotRun, serving
from bench.table import Row, render
from bench.team import sharing

_VOLUMES = 100  # of the projects whose journals are long


def creating(folder: Path, places: Sequence[Place], sizes: Sequence[int], runs: int) -> list[Row]:
    """The first apply of new volumes, journal and fsync on."""
    times: dict[tuple[str, int], list[float]] = {}
    for number in range(runs):
        for size in sizes:
            for place in places:
                root = folder / f"new{number}-{size}-{places.index(place)}"
                with _sandbox(root, place, size) as project:
                    seconds = project.run("apply", "--auto-approve", expect=f"Applied: {size} done.")
                times.setdefault((place.name, size), []).append(seconds)
    file, small = places[0].name, sizes[0]
    rows = [
        Row(
            f"{place.name}: apply of {small:,} creates, against the file",
            median(times[place.name, small]),
            "s",
            place.most_apply,
            median(times[file, small]),
        )
        for place in places[1:]
    ]
    return rows + [
        Row(
            f"{place.name}: a create among {large:,}, against {small:,}",
            median(times[place.name, large]) / large * 1000,
            "ms",
            1.05,
            median(times[place.name, small]) / small * 1000,
        )
        for place in places
        for large in sizes[1:]
    ]


def planning(folder: Path, places: Sequence[Place], size: int, runs: int) -> list[Row]:
    """A plan of recorded resources that finds nothing to do."""
    times: dict[str, list[float]] = {place.name: [] for place in places}
    found = f"No changes: {workload.resources_in(size)} resources"
    with serving([sys.executable, "-m", "bench.platform", str(size)], REPOSITORY) as platform:
        projects = [Project(folder / f"plan-{number}", each, platform) for number, each in enumerate(places)]
        for project in projects:
            _make(project, size)
            anyio.run(workload.write_records, project.root, size, project.url, project.place.variables)
        for _ in range(runs):
            for project in projects:
                times[project.place.name].append(project.run("plan", expect=found))
    file = places[0].name
    return [
        Row(
            f"{place.name}: plan of {size:,}, against the file",
            median(times[place.name]),
            "s",
            place.most_plan,
            median(times[file]),
        )
        for place in places[1:]
    ]


def growing(folder: Path, places: Sequence[Place], sizes: Sequence[int], runs: int) -> list[Row]:
    """A plan, and an apply of one change, with a journal of many entries against one of few."""
    rows = []
    for place in places:
        with ExitStack() as stack:
            projects = []
            for size in sizes:
                root = folder / f"journal{size}-{places.index(place)}"
                project = stack.enter_context(_sandbox(root, place, _VOLUMES))
                project.run("apply", "--auto-approve")
                apps = len(workload.apps(_VOLUMES))
                anyio.run(journals.fill, project.url, root, place.variables, size, apps)
                _change(project, 0)
                project.run("apply", "--auto-approve", expect="Applied: 1 done.")
                projects.append(project)
            plans, applies = _paired(projects, runs)
        for what, most, times in (("plan", 1.05, plans), ("apply of one change", 1.2, applies)):
            rows.append(
                Row(
                    f"{place.name}: {what}, {sizes[1]:,} journal entries against {sizes[0]:,}",
                    median(times[1]),
                    "s",
                    most,
                    median(times[0]),
                )
            )
    return rows


def _paired(
    projects: Sequence[Project], runs: int
) -> tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]:
    """The times of plans and of applies of one change, of each project."""
    plans: list[list[float]] = [[] for _ in projects]
    applies: list[list[float]] = [[] for _ in projects]
    for number in range(1, runs + 1):
        for index, project in enumerate(projects):
            plans[index].append(project.run("plan", expect="No changes"))
        for index, project in enumerate(projects):
            _change(project, number)
            applies[index].append(project.run("apply", "--auto-approve", expect="Applied: 1 done."))
    return plans, applies


def _change(project: Project, number: int) -> None:
    """Another retention for the first volume."""
    file = project.root / "manifests" / f"{workload.app_name(0)}.yaml"
    fields = "  snapshot_retention: "
    first, rest = file.read_text().split(fields, 1)
    file.write_text(f"{first}{fields}{20 + number}\n{rest.partition(chr(10))[2]}")


@contextmanager
def _sandbox(root: Path, place: Place, size: int) -> Iterator[Project]:
    """A project with `size` volumes that nobody has made yet, and its platform."""
    root.mkdir()
    seed = root / "seed.json"
    seed.write_text(json.dumps({"apps": [{"name": workload.app_name(app)} for app in workload.apps(size)]}))
    with serving([*RECONCILE, "sandbox", "--db", "sandbox.db", "--seed", str(seed)], root) as platform:
        project = Project(root, place, platform)
        _make(project, size, with_clusters=False)
        project.run("state", "init", "--new")
        yield project


def _make(project: Project, size: int, *, with_clusters: bool = True) -> None:
    project.root.mkdir(exist_ok=True)
    project.place.prepare(project.root.name)
    workload.write_manifests(project.root / "manifests", size, with_clusters=with_clusters)
    (project.root / "reconcile.yaml").write_text("manifests: [manifests]\n")


def main() -> int:
    """0 whatever the figures say: a benchmark is no test. 1 when something could not be run."""
    parser = argparse.ArgumentParser(prog="python -m bench.states", description="Measure states.")
    parser.add_argument("--quick", action="store_true", help="small sizes, each once")
    quick = parser.parse_args().quick
    compileall.compile_dir(REPOSITORY / "reconciler", quiet=2)
    applied, planned, grown, shared, runs = ([1_000, 4_000], 10_000, [1_000, 100_000], 60, 5)
    if quick:
        applied, planned, grown, shared, runs = ([100, 400], 1_000, [1_000, 10_000], 20, 1)
    try:
        with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as name, places() as kept:
            folder = Path(name)
            rows = growing(folder, kept, grown, runs)
            rows += planning(folder, kept, planned, runs)
            rows += creating(folder, kept, applied, 1 if quick else 3)
            rows += sharing(folder, kept[1:], shared, 1)
    except CouldNotRun as problem:
        print(f"could not run: {problem}", file=sys.stderr)
        return 1
    print(render(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

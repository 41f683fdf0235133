"""What a state costs where it is kept: `python -m bench.states [--quick]`.

Each figure is that of a store against that of the file on the same machine, in turns, or that of a large
state against that of a small one. Prints one table; see README.md.
"""

import sys
from collections.abc import Sequence

import anyio

from bench.figures import Figure, Group, measure
from bench.journals import Journal
from bench.places import Place, main
from bench.stage import Stage
from bench.table import Row
from bench.team import sharing
from bench.worlds.manifests import write_manifests
from bench.worlds.records import write_records
from bench.worlds.world import new, usual


def growing(places: Sequence[Place], few: int, many: int, runs: int) -> list[Group]:
    """A plan, and an apply of one change, with a journal of many entries against one of few."""
    return [
        Group(
            runs,
            runs,
            [
                Figure(Journal("plan", many, place), 1.05, Journal("plan", few, place)),
                Figure(Journal("apply", many, place), 1.2, Journal("apply", few, place)),
            ],
        )
        for place in places
    ]


def creating(stage: Stage, places: Sequence[Place], few: int, many: int, runs: int) -> list[Row]:
    """The first apply of new volumes, journal and fsync on."""
    times: dict[tuple[Place, int], list[float]] = {
        (place, size): [] for place in places for size in (few, many)
    }
    for _ in range(runs):
        for (place, size), seconds in times.items():
            seconds.append(_create_s(stage, place, size))
    file = places[0]
    rows = [
        Row(
            f"{place.name}: apply of {few:,} creates, against the file",
            times[place, few],
            "s",
            place.most_apply,
            times[file, few],
        )
        for place in places[1:]
    ]
    return rows + [
        Row(
            f"{place.name}: a create among {many:,}, against {few:,}",
            [seconds / many * 1000 for seconds in times[place, many]],
            "ms",
            1.05,
            [seconds / few * 1000 for seconds in times[place, few]],
        )
        for place in places
    ]


def _create_s(stage: Stage, place: Place, size: int) -> float:
    root, world = stage.folder(), new(size)
    write_manifests(root, world)
    place.prepare(root.name)
    with stage.sandbox(root, world.apps) as platform:
        project = place.project(stage, root, platform)
        project.run("state", "init")
        return project.run("apply", "--auto-approve", expect=f"Applied: {size} done.").wall_s


def planning(stage: Stage, places: Sequence[Place], size: int, runs: int) -> list[Row]:
    """A plan of recorded resources that finds nothing to do."""
    world = usual(size)
    times: dict[Place, list[float]] = {place: [] for place in places}
    with stage.platform(world) as platform:
        projects = {}
        for place in places:
            root = stage.folder()
            write_manifests(root, world)
            place.prepare(root.name)
            projects[place] = project = place.project(stage, root, platform)
            anyio.run(write_records, root, world, project.variables["RECONCILE_STATE"], place.variables)
        for _ in range(runs):
            for place, project in projects.items():
                times[place].append(project.run("plan", expect=world.verdict).wall_s)
    file = places[0]
    return [
        Row(
            f"{place.name}: plan of {size:,}, against the file",
            times[place],
            "s",
            place.most_plan,
            times[file],
        )
        for place in places[1:]
    ]


def rows(stage: Stage, kept: Sequence[Place], quick: bool) -> list[Row]:
    few, many, planned, entries, shared, runs = 1_000, 4_000, 10_000, 100_000, 60, 5
    if quick:
        few, many, planned, entries, shared, runs = 100, 400, 1_000, 10_000, 20, 1
    grown = [row for group in growing(kept, 1_000, entries, runs) for row in measure(group, stage)]
    return [
        *grown,
        *planning(stage, kept, planned, runs),
        *creating(stage, kept, few, many, 1 if quick else 3),
        *sharing(stage, kept[1:], shared),
    ]


if __name__ == "__main__":
    sys.exit(main("bench.states", "Measure states.", rows))

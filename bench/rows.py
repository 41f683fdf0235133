"""The table of what `python -m bench` measures. One entry is one row of its output.

A row compares two programs, or holds one against a number. Rows of one group are measured in the same rounds.
"""

from collections.abc import Callable
from dataclasses import replace

from bench.figures import CPU, MICROSECONDS, PEAK, Figure, Group
from bench.journals import Journal
from bench.peers.octodns import OctoDns
from bench.peers.terraform import TerraformApply, TerraformPlan
from bench.programs import Apply, ChangedPlan, Help, Ideal, Import, Judge, Plan, Report, Validate
from bench.worlds.world import World, new, usual
from reconciler.reports.formats import formats_for

_READS_AT_ONCE = 64
_AWAY_S = 0.05
_NETWORK_S = 0.03
_LINEAR = 2.2  # what twice as much may take; what is quadratic takes four times as long

_BURST = 3  # requests of one action at once; then one a second. Source: platform notes


def groups(scale: float = 1.0) -> list[Group]:
    """`scale`: by how much the worlds are smaller. The targets are meant for 1."""

    def n(size: int) -> int:
        return max(20, round(size * scale / 20) * 20)

    return [
        Group(9, 5, _starting()),
        Group(5, 3, _thousand(n(1_000))),
        Group(5, 1, _over_networks(n(1_000))),
        Group(3, 0, _large(n(10_000), n(100_000))),
        Group(5, 1, _validating(n(10_000))),
        Group(5, 3, _adopting(n(4_000))),
        Group(3, 1, [_latency(n(10_000))]),
        Group(3, 1, _limits(max(_BURST, round(10 * scale)))),
        Group(5, 1, _journals(n(1_000), n(100_000))),
        *(Group(2, 0, [figure]) for figure in _worlds(n)),
        Group(5, 1, [Figure(ChangedPlan(usual(n(10_000))), 1.0, Plan(usual(n(10_000))))]),
        Group(3, 1, [Figure(Import(usual(n(2_000))), 3.0)]),
        Group(2, 0, _reporting(n(10_000))),
        Group(2, 0, _applying(n(1_000), n(4_000))),
        Group(5, 3, [Figure(Judge(n(10_000), 20), 10, measure=MICROSECONDS)]),
    ]


def _starting() -> list[Figure]:
    """What people type most, and editors run on each save."""
    one = World(1, 1)
    return [Figure(Help(), 0.05), Figure(Validate(one), 0.2), Figure(Plan(one), 0.35)]


def _thousand(size: int) -> list[Figure]:
    plan = Plan(usual(size))
    return [Figure(plan, 0.15, TerraformPlan(size)), Figure(plan, 0.7, OctoDns("sync", size))]


def _over_networks(size: int) -> list[Figure]:
    """Where users are: over https, and not on the platform's own machine."""
    one, many = World(1, 1), usual(size)
    links = [(True, 0.0), (True, _NETWORK_S), (False, _NETWORK_S)]
    return [
        Figure(Plan(world, https=https, round_trip_s=round_trip_s), most, Plan(world))
        for world, mosts in ((one, (1.2, 1.7, 1.5)), (many, (1.4, 2, 1.8)))
        for (https, round_trip_s), most in zip(links, mosts, strict=True)
    ]


def _large(large: int, huge: int) -> list[Figure]:
    plan, huge_plan, terraform = Plan(usual(large)), Plan(usual(huge)), TerraformPlan(large)
    return [
        Figure(plan, 0.04, terraform),
        Figure(plan, 0.3, OctoDns("sync", large)),
        Figure(huge_plan, 0.3, terraform),
        Figure(huge_plan, 11, plan),
        Figure(huge_plan, 400, measure=PEAK),
    ]


def _validating(size: int) -> list[Figure]:
    return [Figure(Validate(usual(size)), 0.35, OctoDns("validate", size))]


def _applying(few: int, many: int) -> list[Figure]:
    return [
        Figure(Apply(new(few)), 0.06, TerraformApply(few)),
        Figure(Apply(new(many)), 4.2, Apply(new(few))),
    ]


def _adopting(size: int) -> list[Figure]:
    one_app = World(1, size)
    return [Figure(Plan(replace(one_app, recorded=0)), 1.5, Plan(one_app))]


def _latency(size: int) -> Figure:
    """What reading takes longer when the platform is some way off."""
    near, far = Plan(usual(size)), Plan(usual(size), delay_s=_AWAY_S)
    return Figure(far, 1.3, Ideal(usual(size).calls / _READS_AT_ONCE * _AWAY_S), less=near)


def _limits(volumes: int) -> list[Figure]:
    """Apps that are read and changed beside each other, each as fast as the documented limits allow."""
    planned = World(20, volumes, max_age_h=168, limited=True)
    applied = World(8, volumes, recorded=0, live=0, limited=True)
    waits = Ideal(volumes - _BURST)
    return [Figure(Plan(planned), 1.15, waits), Figure(Apply(applied), 1.15, waits)]


def _journals(few: int, many: int) -> list[Figure]:
    return [
        Figure(Journal("plan", many), 1.05, Journal("plan", few)),
        Figure(Journal("apply", many), 1.2, Journal("apply", few)),
    ]


def _worlds(n: Callable[[int], int]) -> list[Figure]:
    """What teams really have, and twice as much of it."""
    many = n(20_000)
    worlds = [
        (World(1, many // 2), World(1, many)),
        (
            World(1, n(1_000) * 2, recorded=n(1_000), live=n(1_000)),
            World(1, n(2_000) * 2, recorded=n(2_000), live=n(2_000)),
        ),
        (World(n(2_500) // 10, policies=n(1_000)), World(n(5_000) // 10, policies=n(2_000))),
        (World(n(25_000) // 10, files="volume"), World(n(50_000) // 10, files="volume")),
        (World(n(8_000) // 10, files="one"), World(n(16_000) // 10, files="one")),
    ]
    return [Figure(Plan(twice), _LINEAR, Plan(once), CPU) for once, twice in worlds]


def _reporting(size: int) -> list[Figure]:
    """Of each format: what it takes above the plan itself."""
    reports = [Report(name, size) for name in formats_for("plan")]
    return [
        figure
        for report in reports
        for figure in (Figure(report, 1.5, measure=CPU), Figure(report, 150, measure=PEAK))
    ]

"""What every day of a volume's life ends with: the automatic snapshot, and growth by others.

Source: platform API, 2.2 (`auto_backup_enabled`); platform notes, "Volumes".
"""

from reconciler.sandbox.part import Part
from reconciler.sandbox.parts.snapshot import schedule, unfinished
from reconciler.sandbox.parts.volume import DAY_S, Day, Volume
from reconciler.sandbox.world import Transition, Transitions, World

MOST_GB = 500  # others grow a volume no further


def _end(world: World, day: Day, at: float) -> None:
    volume = world.find(Volume, day.id)
    if volume is None:
        world.remove(day)
        return
    days = 1 + _skipped_days(world, volume, at)
    end = at + (days - 1) * DAY_S
    grown_gb = min(volume.size_gb + days * int(world.switches["auto_extend_gb"]), MOST_GB)
    if grown_gb > volume.size_gb and volume.state == "created":
        volume.size_gb = grown_gb
        world.put(volume)
    wanted = volume.auto_backup_enabled and world.switches["daily_snapshots"] == "on"
    if wanted and volume.state == "created" and unfinished(world, volume) is None:
        schedule(world, volume, end)
    world.enter(day, "passing", end)


def _skipped_days(world: World, volume: Volume, at: float) -> int:
    """How many days of a long jump of the clock leave no trace, because their snapshots expire in it."""
    return max(0, int((world.now - at) // DAY_S) - volume.snapshot_retention - 1)


_TRANSITIONS: Transitions = {("day", "passing"): Transition(DAY_S, _end)}

PART = Part(transitions=_TRANSITIONS)

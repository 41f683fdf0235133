"""What was seen, as verdicts: pure functions that know no database driver."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reconciler.drills.checks.model import Checked, Facts, Wanted

MANY_ROWS = 1_000_001  # tables are counted up to here; a table of this very number may have many more
FEW_ROWS = 100  # a smaller table may well shrink by more than half
SLACK = timedelta(minutes=1)  # clocks differ
QUIET = timedelta(days=3)  # a database without a change for longer, and an older backup, look alike
_NAMED = 3  # objects that a detail names
_TIME = "%Y-%m-%d %H:%M:%S UTC"


@dataclass
class Found:
    """What one check has seen so far. `unseen`: what it could not look at. `skipped`: why it saw nothing."""

    looked: int = 0
    wrong: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    skipped: str = ""

    def checked(self, name: str) -> Checked:
        if self.wrong:
            return Checked(name, "failed", _listed(self.wrong))
        if self.unseen:
            return Checked(name, "could not verify", _listed(self.unseen))
        if self.skipped and not self.looked:
            return Checked(name, "not configured", self.skipped)
        return Checked(name, "passed", f"{self.looked} looked at")


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return "; ".join(names[:_NAMED]) + (f"; and {more} more" if more > 0 else "")


def compare_names(found: Found, what: str, before: Collection[str], now: Collection[str]) -> None:
    """Note each name of `before` that is gone. `what` goes before each."""
    found.looked += len(before)
    found.wrong += [f"{what}{name} is missing" for name in before if name not in now]


def compare_rows(found: Found, database: str, before: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Note tables that were emptied, or shrank by more than half."""
    for table, rows in now.items():
        had = before.get(table, 0)
        if had and not rows:
            found.wrong.append(f"table {database}.{table} has lost all its rows")
        elif had >= FEW_ROWS and rows * 2 < had and rows != MANY_ROWS:
            found.wrong.append(f"table {database}.{table} has lost more than half of its rows")


def judge_server(wanted: Wanted, version: int, is_recovering: bool, has_postgis: bool) -> list[Checked]:
    """`version`: the major one."""
    promised = wanted.pg_major_version
    same = None if promised is None else promised == str(version)
    recovery = "still in recovery" if is_recovering else "recovery has ended"
    postgis = has_postgis if wanted.postgis_enabled else None
    judged = [
        ("recovered", not is_recovering, recovery),
        ("version", same, f"{version}, promised: {promised}"),
        ("postgis", postgis, "available" if has_postgis else "not available"),
    ]  # None: nothing was promised
    return [
        Checked(name, "not configured" if holds is None else "passed" if holds else "failed", detail)
        for name, holds, detail in judged
    ]


def judge_point(wanted: Wanted, newest: datetime | None, target: datetime | None) -> Checked:
    """`newest`: the newest change that is there. `target`: where the server was told to end its recovery."""
    name = "recovery point"
    if newest is None:
        return Checked(name, "not configured", "nothing says it: set track_commit_timestamp = on")
    point, before = wanted.until, (wanted.before or Facts()).recovery_point
    seen = f"the newest change is of {newest:{_TIME}}"
    if before and newest < before - SLACK and (point is None or before <= point):
        return Checked(name, "failed", f"{seen}; the last good drill had one of {before:{_TIME}}")
    if point is None:
        return Checked(name, "passed", seen)
    if wanted.exact and newest > point + SLACK:
        return Checked(name, "failed", f"{seen}, after {point:{_TIME}}, which was asked for")
    if target and newest <= target < point - SLACK:
        return Checked(name, "failed", f"recovered to {target:{_TIME}}, not to {point:{_TIME}}")
    reached = target is not None and abs(target - point) <= SLACK
    if reached or point - newest <= QUIET:
        return Checked(name, "passed", seen)
    why = f"an older backup, or nothing was written until {point:{_TIME}}"
    return Checked(name, "could not verify", f"{seen}: {why}")

"""The sandbox's own time: real, stopped until it is advanced, or N times faster."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from functools import lru_cache

_FASTER = re.compile(r"x(\d+(?:\.\d+)?)")
LATEST_S = datetime(9000, 1, 1, tzinfo=UTC).timestamp()  # dates end with year 9999
_FASTEST = 1e6
YEAR_ONE = "0001-01-01T00:00:00Z"
YEAR_ONE_S = datetime(1, 1, 1, tzinfo=UTC).timestamp()  # means "not known"


class WorldClock:
    """Seconds since the epoch. It stands still while the process is down, and never runs backwards.

    It stops at `LATEST_S`.

    `setting` is `real`, `manual` or `xN`. It starts at the later of the saved time and the real one.
    Raises ValueError for any other setting.
    """

    def __init__(
        self,
        setting: str,
        saved: float = 0.0,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.setting = setting
        self.rate = _rate(setting)
        self._monotonic = monotonic
        self._base = max(saved, wall())
        self._anchor = monotonic()

    def now(self) -> float:
        """Seconds since the epoch, at most `LATEST_S`."""
        return min(self._base + (self._monotonic() - self._anchor) * self.rate, LATEST_S)

    def advance(self, seconds: float) -> None:
        """Jump forward; a clock that runs goes on from there."""
        self._base += seconds


def _rate(setting: str) -> float:
    if setting in ("real", "manual"):
        return 1.0 if setting == "real" else 0.0
    found = _FASTER.fullmatch(setting)
    if not found or not 0 < float(found[1]) <= _FASTEST:
        raise ValueError(
            f"`{setting}` is not a clock: use real, manual or xN, such as x600, up to x{_FASTEST:.0f}"
        )
    return float(found[1])


def rfc3339(at: float, digits: int = 0) -> str:
    """`at` in UTC with 0, 3, 6 or 9 fraction digits: the platform uses several."""
    moment = datetime.fromtimestamp(at, UTC)
    fraction = f".{moment.microsecond:06d}000"[: digits + 1] if digits else ""
    return f"{moment.isoformat()[:19]}{fraction}Z"


@lru_cache(maxsize=4)
def http_date(second: int) -> str:
    """The value of a Date header: whole seconds since the epoch, in GMT."""
    return formatdate(second, usegmt=True)

"""The sandbox's own time: real, standing still until advanced, or N times faster."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from functools import lru_cache

_FASTER = re.compile(r"x(\d+(?:\.\d+)?)")
YEAR_ONE = "0001-01-01T00:00:00Z"


class WorldClock:
    """Seconds since the epoch. It stands still while the process is down, and never runs backwards.

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
        return self._base + (self._monotonic() - self._anchor) * self.rate

    def advance(self, seconds: float) -> None:
        self._base += seconds


def _rate(setting: str) -> float:
    if setting in ("real", "manual"):
        return 1.0 if setting == "real" else 0.0
    found = _FASTER.fullmatch(setting)
    if not found or float(found[1]) <= 0:
        raise ValueError(f"`{setting}` is not a clock: use real, manual or xN, such as x600")
    return float(found[1])


def rfc3339(at: float, digits: int = 0) -> str:
    """`at` in UTC with 0, 3, 6 or 9 fraction digits: the platform uses several."""
    moment = datetime.fromtimestamp(at, UTC)
    fraction = f".{moment.microsecond:06d}000"[: digits + 1] if digits else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


@lru_cache(maxsize=4)
def http_date(second: int) -> str:
    return formatdate(second, usegmt=True)

"""The times of a cron expression: the only module that knows cronsim."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from reconciler.core.extras import extra_missing


def first_after(at: datetime, opens: str, zone: tzinfo) -> datetime | None:
    """The first time of `opens` in `zone` that is later than `at`, in UTC; None: there is none in 50 years.

    A time that the change to summer time skips is the first minute after it. A time that comes twice in the
    change back counts once, the first time. Neither is true where the minute or the hour begins with `*`.
    Raises ValueError for a wrong expression, and ExtraMissing.
    """
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        message = "schedules need cronsim, which is not installed here"
        raise extra_missing("policy", message) from None
    try:
        for found in CronSim(opens, at.astimezone(zone)):
            if (time := found.astimezone(UTC)) > at:  # in the hour that comes twice, it begins with the first
                return time
    except CronSimError as wrong:
        raise ValueError(f"not a cron expression: {str(wrong).lower()}") from None
    return None


def checked_cron(opens: str) -> str:
    """`opens`, if it is an expression that comes true. Raises ValueError, and ExtraMissing."""
    if len(opens.split()) != 5:
        raise ValueError("expected five fields: minute, hour, day of month, month, day of week")
    if first_after(datetime(2000, 1, 1, tzinfo=UTC), opens, UTC) is None:
        raise ValueError("it never opens")
    return opens


def checked_zone(name: str) -> str:
    """`name`, if it is of a time zone. Raises ValueError."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ValueError("expected an IANA name of a time zone, such as Europe/Berlin or UTC") from None
    return name

"""What a forecast found, for people."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from reconciler.reports.look import Look, Tone

if TYPE_CHECKING:  # few reports have one
    from reconciler.rehearsal.outlook import Forecast


def verdict(forecast: "Forecast") -> str:
    """In one line; what is found is listed below it."""
    after = ", the plan being applied now" if forecast.after_apply else ""
    found = ":" if forecast.items else ": nothing."
    return f"By {moment(forecast.at)}, if nobody does anything{after}{found}"


def moment(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at is not None else "not known"


def lines(forecast: "Forecast", look: Look) -> list[str]:
    found = [look.line(0, (verdict(forecast), Tone.STRONG))]
    for each in forecast.items:
        when = f"{moment(each.when)}: " if each.when is not None else ""
        found.append(look.line(2, (when, Tone.PAUSE), f"{each.address}: {each.what}"))
    return found

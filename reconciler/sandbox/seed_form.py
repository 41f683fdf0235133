"""The form of a seed: what `GET /_sandbox/world` shows, or a person writes. Nothing else is taken.

What follows from the rest (blocks, endpoints, figures of storage) may stand there, and is not read.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from reconciler.core.wire import parse_time
from reconciler.sandbox.clock import LATEST_S, YEAR_ONE, YEAR_ONE_S
from reconciler.sandbox.fields import NAME, NOT_BLANK
from reconciler.sandbox.world import World
from reconciler.services.machines.wire.volume import LARGEST_GB

MOST = 2**53 - 1


def one_of(*allowed: str) -> Any:
    def check(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return AfterValidator(check)


def _date(text: str) -> str:
    moment = parse_time(text)
    if moment is None or not 0 <= moment.timestamp() <= LATEST_S:
        raise ValueError(
            f"must be a date and time such as 2026-03-01T12:00:00Z, since 1970: {text!r} is none"
        )
    return text


def _date_or_unknown(text: str) -> str:
    return text if text.startswith(YEAR_ONE[:5]) else _date(text)


def _not_blank(text: str) -> str:
    if not NOT_BLANK.search(text):
        raise ValueError("must not be blank")
    return text


Name = Annotated[str, Field(pattern=NAME)]
Text = Annotated[str, AfterValidator(_not_blank)]
Date = Annotated[str, AfterValidator(_date)]
DateOrUnknown = Annotated[str, AfterValidator(_date_or_unknown)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Size = Annotated[int, Field(ge=1, le=LARGEST_GB)]
Retention = Annotated[int, Field(ge=1, le=60)]


class Item(BaseModel):
    """One thing of a seed. Null means that the field is left out."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def key(self) -> tuple[str, ...] | None:
        """What no other item of its part may have too; None while the sandbox is to choose an id."""
        id = getattr(self, "id", None)
        return None if id is None else (id,)


def moment_or_now(world: World, text: str | None) -> float:
    """The moment in `text`, now where there is none."""
    known = moment(text)
    return world.now if known is None else known


def moment(text: str | None) -> float | None:
    """Seconds since the epoch, `YEAR_ONE_S` where the date is not known."""
    if text is None:
        return None
    parsed = parse_time(text)
    return YEAR_ONE_S if parsed is None else parsed.timestamp()

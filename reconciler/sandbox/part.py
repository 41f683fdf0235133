"""What a part of the emulated platform is, and what a seed can hold of one: data that is discovered.

A seed has the form of `GET /_sandbox/world`; a person may write one. Nothing else is taken. What follows from
the rest (blocks, endpoints, figures of storage) may be in it, and is not read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct, field
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from reconciler.core.wire import parse_time
from reconciler.sandbox.clock import LATEST_S, YEAR_ONE, YEAR_ONE_S
from reconciler.sandbox.fields import NAME, NOT_BLANK
from reconciler.sandbox.routing import Route
from reconciler.sandbox.world import Thing, Transitions, World
from reconciler.services.machines.wire.volume import LARGEST_GB

Columns = Sequence[str | tuple[str, str | Callable[[World, Any], Any]]]
Items = Mapping[str, Sequence[Any]]  # of a whole seed, by part; each item is checked against its form


def _nothing(*_: Any) -> Iterable[str]:
    return ()


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


class Seed(Struct, frozen=True):
    """What a world holds of one class, under `name`: one of the `seeds` of its part.

    `shown`: a thing as `GET /_sandbox/world` shows it, and as a seed has it. `columns`: its table on the page
    for people: fields, or titles with a field or a function. `plant` puts an item into a world where those of
    the seeds in `after` are planted. `form`: what the items are checked against first; without one, `plant`
    takes and checks a mapping. `missing`: what items refer to and no item is, as `place: problem`. `finish`:
    what is done when everything is planted.
    """

    name: str
    cls: type[Thing]
    shown: Callable[[World, Any], Mapping[str, Any]]
    columns: Columns
    plant: Callable[[World, Any], object]
    form: type[Item] | None = None
    after: Sequence[str] = ()
    missing: Callable[[Items], Iterable[str]] = _nothing
    finish: Callable[[World], None] = lambda world: None


class Part(Struct, frozen=True):
    """One part of the platform: the `PART` of a module of `sandbox/parts/`.

    `things`: the classes of what it keeps. `list_paths`: the path of every list of them that there is now.
    """

    routes: Sequence[Route] = ()
    transitions: Transitions = field(default_factory=dict)
    things: Sequence[type[Thing]] = ()
    list_paths: Callable[[World], Iterable[str]] = _nothing
    seeds: Sequence[Seed] = ()


def apps_in(items: Items) -> set[str]:
    """The apps of a seed: one exists as soon as something of it does."""
    named = {app.name for app in items["apps"]}
    return named | {item.app for each in items.values() for item in each if getattr(item, "app", None)}


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

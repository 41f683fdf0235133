"""What a part of the emulated platform declares: its routes, its things, and what a seed can hold of them.

A seed has the form of `GET /_sandbox/world`; a person may write one. Nothing else is taken. Fields that
follow from others (blocks, endpoints, figures of storage) may be in it, and are not read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct, field
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from reconciler.core.wire import parse_time
from reconciler.sandbox.clock import LATEST_S, YEAR_ONE, YEAR_ONE_S
from reconciler.sandbox.exchange import NAME, NOT_BLANK, Response
from reconciler.sandbox.world import Thing, Transitions, World
from reconciler.services.machines.wire.volume import LARGEST_GB

Handler = Callable[..., Response]  # (world, request, **parameters of the path)
Columns = Sequence[str | tuple[str, str | Callable[[World, Any], Any]]]
Items = Mapping[str, Sequence[Any]]  # of a whole seed, by part; each item is checked against its form
MOST = 2**53 - 1  # what numbers of every client hold


class Route(Struct, frozen=True):
    """`extended`: the API document does not show it. `body` and `reply` are wire models.

    `name` is unique among the routes, such as `volume_create`. `statuses` are those of successes, `errors`
    those that do not follow from path, body and guard. `query`: JSON schemas of the parameters that it reads.
    `gives`: what its answer holds for other operations, from the name of their path parameter or body field
    to a JSON pointer, or an expression. `example`: a body. `guard`: the token that is asked for; only
    `bearer`, the platform's own, is checked before the handler is called. `media`: the type of the body;
    `required`: query parameters.
    """

    method: str
    path: str
    handler: Handler
    name: str
    summary: str = ""
    reply: Any = None
    statuses: Sequence[int] = (200,)
    extended: bool = False
    body: type[Any] | None = None
    errors: Sequence[int] = ()
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    gives: Mapping[str, str] = field(default_factory=dict)
    example: Mapping[str, Any] = field(default_factory=dict)
    guard: Literal["bearer", "access_token", "control", ""] = "bearer"
    media: str = "application/json"
    required: Sequence[str] = ()

    @property
    def path_parameters(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def refusals(self) -> set[int]:
        """Every status of an error that the handler, or what is checked before it, may answer with."""
        by_token = {401, *([404] if self.path_parameters else ())} if self.guard == "bearer" else ()
        by_body = (400, 422) if self.body and self.guard in ("bearer", "control") else ()
        return {*self.errors, *by_token, *by_body}


class Routes:
    """The routes of `part`, which begins their names; `defaults` are fields of all of them.

    Called with a method, a path, a summary and the model of the reply, it decorates a handler.
    """

    def __init__(self, part: str, **defaults: Any) -> None:
        self.found: list[Route] = []
        self._part = part
        self._defaults = defaults

    def __call__(
        self, method: str, path: str, summary: str = "", reply: Any = None, **more: Any
    ) -> Callable[[Handler], Handler]:
        """Add a route to the decorated handler; `more` are further fields of `Route`."""

        def add(handler: Handler) -> Handler:
            name = f"{self._part}_{handler.__name__}"
            self.found.append(Route(method, path, handler, name, summary, reply, **self._defaults | more))
            return handler

        return add

    def extended(
        self, method: str, path: str, summary: str, reply: Any, **more: Any
    ) -> Callable[[Handler], Handler]:
        """The same for a route that the API document does not show."""
        return self(method, path, summary, reply, extended=True, **more)


def one_of(*allowed: str) -> Any:
    """A check that a text is one of `allowed`, for words that no Literal spells out."""

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


Name = Annotated[str, Field(pattern=NAME)]
NameOrEmpty = Annotated[Name | None, BeforeValidator(lambda value: None if value == "" else value)]
Text = Annotated[str, Field(pattern=NOT_BLANK)]
Date = Annotated[str, AfterValidator(_date)]
DateOrUnknown = Annotated[str, AfterValidator(_date_or_unknown)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Positive = Annotated[int, Field(ge=1, le=MOST)]
Size = Annotated[int, Field(ge=1, le=LARGEST_GB)]
Retention = Annotated[int, Field(ge=1, le=60)]


class Item(BaseModel):
    """One thing of a seed, or the body of a control verb. Null means that the field is left out."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    unique: ClassVar[Sequence[str]] = ("id",)  # fields whose values are together unique in the part

    def key(self) -> tuple[str, ...] | None:
        """The value that is unique in its part; None while the sandbox is to choose an id."""
        values: tuple[Any, ...] = tuple(getattr(self, name, None) for name in self.unique)
        return None if None in values else values


class Seed(Struct, frozen=True):
    """What a world holds of one class, under `name`: one of the `seeds` of its part.

    `shown`: a thing as `GET /_sandbox/world` shows it, and as a seed has it. `columns`: its table on the page
    for people: fields, or titles with a field or a function. `form`: the model of the items, checked first.
    `plant` puts an item into a world where those of the seeds in `after` are planted. `missing`: what items
    refer to and no item is, as `place: problem`. `finish`: called when everything is planted.
    """

    name: str
    cls: type[Thing]
    shown: Callable[[World, Any], Mapping[str, Any]]
    columns: Columns
    plant: Callable[[World, Any], object]
    form: type[Item]
    after: Sequence[str] = ()
    missing: Callable[[Items], Iterable[str]] = lambda items: ()
    finish: Callable[[World], None] = lambda world: None


class Part(Struct, frozen=True):
    """One part of the platform: the `PART` of a module of `sandbox/parts/`.

    `things`: the classes that it stores.
    """

    routes: Sequence[Route] = ()
    transitions: Transitions = field(default_factory=dict)
    things: Sequence[type[Thing]] = ()
    seeds: Sequence[Seed] = ()


def apps_in(items: Items) -> set[str]:
    """The apps of a seed: one exists as soon as something of it does."""
    named = {app.name for app in items["apps"]}
    return named | {item.app for part in items.values() for item in part if getattr(item, "app", None)}


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

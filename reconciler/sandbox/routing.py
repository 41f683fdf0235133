"""The form of a route, how a part declares its routes, and how a request finds its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from msgspec import Struct, field

from reconciler.sandbox.exchange import Refusal, Response

Handler = Callable[..., Response]  # (world, request, **parameters of the path)


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
    """The routes of `part`, which begins their names. Its methods decorate handlers."""

    def __init__(self, part: str, guard: Literal["bearer", "control"] = "bearer") -> None:
        self.found: list[Route] = []
        self._part = part
        self._guard = guard

    def __call__(
        self, method: str, path: str, summary: str = "", reply: Any = None, **more: Any
    ) -> Callable[[Handler], Handler]:
        """Add a route to the decorated handler; `more` are further fields of `Route`."""

        def add(handler: Handler) -> Handler:
            name = f"{self._part}_{handler.__name__}"
            route = Route(method, path, handler, name, summary, reply, **{"guard": self._guard} | more)
            self.found.append(route)
            return handler

        return add


class Match(NamedTuple):
    route: Route
    parameters: Mapping[str, str]


class Router:
    """With `extended` false, it is as if there were no extended routes."""

    def __init__(self, routes: Sequence[Route], *, extended: bool = True) -> None:
        self._extended = extended
        self._by_length: dict[int, list[tuple[list[str], Route]]] = {}
        for route in routes:
            parts = route.path.split("/")
            self._by_length.setdefault(len(parts), []).append((parts, route))

    def find(self, method: str, path: str) -> Match:
        """The handler for a request; HEAD is answered as GET. Raises Refusal 404 or 405."""
        wanted = "GET" if method == "HEAD" else method
        sent = path.split("/")
        allowed: set[str] = set()
        for parts, route in self._by_length.get(len(sent), ()):
            parameters = _parameters(parts, sent)
            if parameters is None:
                continue
            offered = self._extended or not route.extended
            if route.method == wanted and offered:
                return Match(route, parameters)
            if offered:
                allowed.add(route.method)
        if not allowed:
            raise _nothing_here()
        if "GET" in allowed:
            allowed.add("HEAD")
        raise Refusal(
            405, "method not allowed", "method_not_allowed", headers={"allow": ", ".join(sorted(allowed))}
        )


def _nothing_here() -> Refusal:
    return Refusal(404, "this path does not exist", "not_found")


def _parameters(parts: list[str], sent: list[str]) -> dict[str, str] | None:
    """The values of `{name}` parts, decoded; None when the path is another one."""
    found: dict[str, str] = {}
    for part, value in zip(parts, sent, strict=True):
        if part.startswith("{"):
            if not value:
                return None
            found[part[1:-1]] = unquote(value)
        elif part != value:
            return None
    return found

"""Faults to order: the next requests that match are answered wrongly, late, or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from reconciler.sandbox.exchange import Refusal, Request, Response, reply

HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


@checked(config=ConfigDict(extra="forbid"))
class Fault:
    """What happens to the next `times` requests (None: all) of `method` whose path matches the glob `path`.

    - `status`, `html`: this answer instead of the real one, with `body` and `headers`
    - `drop_before`, `drop_after`: the connection closes without an answer
    - `truncate`: the connection closes in the middle of the real answer
    - `delay`: the answer comes `delay_s` real seconds late; with `before` the request is carried out late
    - `stale_list`: lists of volumes answer what they answered when the fault was set

    `after`: the request is carried out all the same (only `status` and `html` ask).
    """

    action: Literal["status", "drop_before", "drop_after", "delay", "truncate", "html", "stale_list"]
    method: str = "*"
    path: str = "*"
    times: int | None = 1
    status: Annotated[int, Field(ge=200, le=599)] | None = None
    delay_s: Annotated[float, Field(ge=0)] = 0.0
    before: bool = False
    after: bool = False
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    stale: dict[str, Any] = field(default_factory=dict)

    def matches(self, request: Request) -> bool:
        return self.method in ("*", request.method) and fnmatchcase(request.path, self.path)

    @property
    def carries_out(self) -> bool:
        """Whether the request has its effect."""
        if self.action in ("status", "html"):
            return self.after
        return self.action != "drop_before"

    @property
    def hold_s(self) -> float:
        """Real seconds to wait before the request is carried out."""
        return self.delay_s if self.action == "delay" and self.before else 0.0

    def spoil(self, request: Request, answer: Response) -> Response:
        """What the client gets instead of `answer`."""
        if self.action == "status":
            spoiled = reply({"error": "fault"} if self.body is None else self.body, self.status or 500)
            spoiled.headers = dict(self.headers)
            return spoiled
        if self.action == "html":
            return Response(self.status or 502, HTML, "text/html; charset=utf-8", dict(self.headers))
        if self.action in ("drop_before", "drop_after"):
            return Response(0, cut="drop")
        if self.action == "truncate":
            answer.cut = "truncate"
        elif self.action == "delay" and not self.before:
            answer.delay_s = self.delay_s
        elif self.action == "stale_list" and answer.status == 200 and request.method == "GET":
            return reply(self.stale.get(request.path, []))
        return answer


@dataclass
class Faults:
    """The faults not used up yet; the first that matches is taken."""

    pending: list[Fault] = field(default_factory=list)

    def take(self, request: Request) -> Fault | None:
        for fault in self.pending:
            if fault.matches(request):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self.pending.remove(fault)
                return fault
        return None

    def wire(self) -> list[dict[str, Any]]:
        return [
            {name: value for name, value in asdict(fault).items() if name != "stale"}
            for fault in self.pending
        ]

    def dump(self) -> list[dict[str, Any]]:
        return [asdict(fault) for fault in self.pending]


_FAULTS = TypeAdapter(list[Fault])


def read(wanted: Any, lists: Mapping[str, Any]) -> Sequence[Fault]:
    """The faults of a request body, one object or an array; `lists` are the present answers by path.

    Raises Refusal 422 naming what is wrong.
    """
    try:
        faults = _FAULTS.validate_python(wanted if isinstance(wanted, list) else [wanted])
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise Refusal(422, "; ".join(problems)) from None
    for fault in faults:
        fault.stale = dict(lists) if fault.action == "stale_list" else {}
    return faults


def stored(dumped: Any) -> list[Fault]:
    return _FAULTS.validate_python(dumped)

"""Ordered faults: the next requests that match are answered wrongly, late, or not at all."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from reconciler.sandbox.exchange import Refusal, Request, Response, changed, problems, reply

HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
_ENUMS = ("state", "status", "plan", "type", "previous_state")
UNKNOWN_WORD = "word_of_tomorrow"
_LARGEST_BYTES = 1 << 28
_LONGEST_S = 24 * 3600
_METHODS = ("*", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # what HTTP carries: latin-1 without controls
_FRAMING = ("content-length", "transfer-encoding")
_FORM = "a fault is a mapping with `action`; a script is an array of faults, or a mapping with `faults`"


def _method(word: str) -> str:
    if word.upper() not in _METHODS:
        raise ValueError(f"must be one of {', '.join(_METHODS)}")
    return word.upper()


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a header")
        if name.lower() in _FRAMING:
            raise ValueError(f"{name} follows from the body, and cannot be set")
        _header_value(value)
    return {name.lower(): value for name, value in headers.items()}


def _header_value(value: int | str) -> int | str:
    if not _HEADER_VALUE.fullmatch(str(value)) or str(value) != str(value).strip():
        raise ValueError("a header holds latin-1 characters on one line, with no space around them")
    return value


def _finite(body: Any) -> Any:
    try:
        json.dumps(body, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        raise ValueError("must be a JSON value") from None
    return body


class Fault(BaseModel):
    """The fault of the next `times` requests (None: all) of `method` whose path matches the glob `path`.

    - `status`, `html`: this answer instead of the real one, with `body` and `headers`
    - `rate_limited`: 429 with `retry_after` as its header, without one when that is not given
    - `drop_before`, `drop_after`: the connection closes without an answer
    - `truncate`: the connection closes in the middle of the real answer
    - `delay`: the answer comes `delay_s` real seconds late; with `before` the request is carried out late
    - `drip`: the body of the real answer comes a byte at a time (a long one in a hundred pieces), `delay_s`
      real seconds apart
    - `oversize`: the body is filled up with spaces, behind its first character, to `size_bytes`
    - `wrong_type`: each number becomes a text, each text a number, true and false an array
    - `unknown_enum`: each `state`, `status`, `plan` and `type` becomes an unknown word
    - `stale_list`: lists answer as of when the fault was set

    `after`: the request is still carried out (only `status`, `html` and `rate_limited` ask). Of the
    requests that match, only the share `probability` is hit, by draws that depend on the seed alone.
    """

    model_config = ConfigDict(extra="forbid")

    action: Literal[
        "status",
        "html",
        "rate_limited",
        "drop_before",
        "drop_after",
        "truncate",
        "delay",
        "drip",
        "oversize",
        "wrong_type",
        "unknown_enum",
        "stale_list",
    ]
    method: Annotated[str, AfterValidator(_method)] = "*"
    path: str = "*"
    times: Annotated[int, Field(ge=1)] | None = 1
    probability: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    status: Annotated[int, Field(ge=200, le=599)] | None = None
    delay_s: Annotated[float, Field(ge=0, le=_LONGEST_S, allow_inf_nan=False)] = 0.0
    before: bool = False
    after: bool = False
    body: Annotated[Any, AfterValidator(_finite)] = None
    headers: Annotated[dict[str, str], AfterValidator(_headers)] = Field(default_factory=dict)
    retry_after: Annotated[int | str, AfterValidator(_header_value)] | None = None
    size_bytes: Annotated[int, Field(ge=0, le=_LARGEST_BYTES)] = 16 << 20
    stale: dict[str, Any] = Field(default_factory=dict)

    def matches(self, request: Request) -> bool:
        """Whether the fault is for this request; its draw is not counted."""
        return self.method in ("*", request.method) and fnmatchcase(request.path, self.path)

    @property
    def carries_out(self) -> bool:
        """Whether the request has its effect."""
        if self.action in ("status", "html", "rate_limited"):
            return self.after
        return self.action != "drop_before"

    @property
    def hold_s(self) -> float:
        """Real seconds to wait before the request is carried out."""
        return self.delay_s if self.action == "delay" and self.before else 0.0

    def spoil(self, request: Request, answer: Response) -> Response:
        """The answer that the client gets instead of `answer`."""
        match self.action:
            case "status":
                return self._instead(reply(self._or({"error": "fault"}), self.status or 500))
            case "html":
                return self._instead(Response(self.status or 502, HTML, "text/html; charset=utf-8"))
            case "rate_limited":
                limited = reply(self._or({"error": "rate limit exceeded"}), 429)
                if self.retry_after is not None:
                    limited.headers["retry-after"] = str(self.retry_after)
                return self._instead(limited)
            case "drop_before" | "drop_after":
                return Response(0, cut="drop")
            case "truncate":
                answer.cut = "truncate"
            case "delay":
                answer.delay_s = 0.0 if self.before else self.delay_s
            case "drip":
                answer.drip_s = self.delay_s
            case "oversize":  # still the same JSON, so that a client without a limit reads it all
                spaces = b" " * (self.size_bytes - len(answer.body))
                answer.body = answer.body[:1] + spaces + answer.body[1:]
            case "wrong_type":
                _rewrite(answer, _mistyped)
            case "unknown_enum":
                _rewrite(answer, _unknown_word)
            case "stale_list" if answer.status == 200 and request.method == "GET":
                return self._stale(request.path, answer.json())
        return answer

    def _or(self, body: Any) -> Any:
        return body if self.body is None else self.body

    def _instead(self, answer: Response) -> Response:
        answer.headers |= self.headers
        return answer

    def _stale(self, path: str, content: Any) -> Response:
        """Answer as of when the fault was set. An object that came later has empty lists."""
        if path in self.stale:
            return reply(self.stale[path])
        if isinstance(content, dict):
            return reply({name: [] if isinstance(value, list) else value for name, value in content.items()})
        return reply([])


def _rewrite(answer: Response, change: Callable[[str, Any], Any]) -> None:
    if answer.body and answer.content_type == "application/json":
        answer.body = reply(changed(answer.json(), change)).body


def _mistyped(_: str, value: Any) -> Any:
    if isinstance(value, bool):
        return [value]
    if isinstance(value, int | float):
        return f"about {value}"
    return 7 if isinstance(value, str) else value


def _unknown_word(name: str, value: Any) -> Any:
    return UNKNOWN_WORD if name in _ENUMS and isinstance(value, str) else value


@dataclass
class Faults:
    """The faults that are not used up yet. The first that matches, and whose draw says so, is taken.

    `draws` counts the draws of chance so far: the same seed and requests meet the same faults.
    """

    pending: list[Fault] = field(default_factory=list)
    seed: int = 0
    draws: int = 0

    def take(self, request: Request) -> Fault | None:
        """The fault that hits this request, used up once; None when it is spared."""
        for fault in self.pending:
            if fault.matches(request) and self._hits(fault):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self.pending.remove(fault)
                return fault
        return None

    def script(self, script: "Script", lists: Callable[[str], Mapping[str, Any]]) -> None:
        """Take in `script`; `lists` gives the present answers of lists by path, from a glob."""
        if script.seed is not None:
            self.seed, self.draws = script.seed, 0
        for fault in script.faults:
            if fault.action == "stale_list":
                fault.stale = dict(lists(fault.path))
            self.pending.append(fault)

    def wire(self) -> list[dict[str, Any]]:
        """The pending faults as the control verb shows them."""
        return [fault.model_dump(exclude={"stale"}) for fault in self.pending]

    def dump(self) -> dict[str, Any]:
        """The pending faults and the position of the draws, for the database."""
        faults = [fault.model_dump() for fault in self.pending]
        return {"seed": self.seed, "draws": self.draws, "faults": faults}

    def _hits(self, fault: Fault) -> bool:
        if fault.probability >= 1:
            return True
        self.draws += 1
        drawn = hashlib.sha256(f"{self.seed}/{self.draws}".encode()).digest()
        return int.from_bytes(drawn[:8], "big") / 2**64 < fault.probability


class Script(BaseModel):
    """Faults, and the seed of their draws (None: go on with the present one)."""

    model_config = ConfigDict(extra="forbid")

    faults: list[Fault]
    seed: int | None = None


def read(wanted: Any) -> Script:
    """The script in a request body: one fault, an array of them, or `{seed?, faults}`.

    Raises Refusal 422 naming what is wrong.
    """
    if not isinstance(wanted, dict | list):
        raise Refusal(422, _FORM)
    if isinstance(wanted, dict) and "faults" not in wanted:
        wanted = [wanted]
    try:
        return Script.model_validate({"faults": wanted} if isinstance(wanted, list) else wanted)
    except ValidationError as error:
        raise Refusal(422, "; ".join(problems(error))) from None


def stored(dumped: Mapping[str, Any]) -> Faults:
    """The faults that `dump` gave; those of an older version that are refused today are left out."""
    pending = []
    for fault in dumped.get("faults", ()):
        with suppress(ValidationError):
            pending.append(Fault.model_validate(fault))
    return Faults(pending, dumped.get("seed", 0), dumped.get("draws", 0))

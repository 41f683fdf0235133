"""What may become of one request: whether and when it takes effect, and what its sender gets to see."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from reconciler.core.errors import Lost, NotSent, TransportError
from reconciler.sandbox.exchange import Response
from reconciler.services.transport import Answer
from tests.reliability.simulation.scenario import Fault

HTML = b"<html><body><h1>Bad Gateway</h1></body></html>"
APP_MISSING = b'{"error":"Could not find App"}'

# What the platform may hide for a while, and how late a lost request may take effect. Together they
# stay inside the settle window of 180 s, which is what the product counts on; an absolute call is
# waited for during one deadline of 30 s.
STALE_S = 60.0
LATE_CREATE_S = 115.0

# One list in three may even show what was there so long ago: the product looks three times.
LAG_S = 400.0
LIES_IN_A_ROW = 2
LATE_ABSOLUTE_S = 26.0

Answering = Callable[[Response], Answer | TransportError]


@dataclass(frozen=True, slots=True)
class Course:
    """`effect`: whether the request is carried out; `late`: only after `Fault.after_s`, when nobody waits.

    `answer` makes what the sender gets of the platform's own response (of `Response()` without
    effect); `slow`: it comes `Fault.after_s` late. `reads`, `writes`: the requests it may hit.
    `stale`: a list as it was `Fault.after_s` ago. `echoes`: refused with the request's own body.
    """

    answer: Callable[[Fault], Answering]
    effect: bool = True
    late: bool = False
    slow: bool = False
    reads: bool = False
    writes: bool = True
    stale: bool = False
    echoes: bool = False


def honest(response: Response) -> Answer:
    return Answer(response.status, {"content-type": response.content_type, **response.headers}, response.body)


def _plain(fault: Fault) -> Answering:
    return honest


def _lost(fault: Fault) -> Answering:
    return lambda response: Lost("the connection failed before the answer was complete")


def _not_sent(fault: Fault) -> Answering:
    return lambda response: NotSent("cannot connect")


def _status(body: bytes, kind: str = "application/json", **headers: str) -> Callable[[Fault], Answering]:
    return lambda fault: lambda response: Answer(fault.status, {"content-type": kind, **headers}, body)


def _body(change: Callable[[bytes], bytes]) -> Callable[[Fault], Answering]:
    """The platform's answer with another body; an error stays as it is."""

    def spoil(response: Response) -> Answer:
        answer = honest(response)
        return answer if answer.status >= 300 else Answer(answer.status, answer.headers, change(answer.body))

    return lambda fault: spoil


def _without_id(body: bytes) -> bytes:
    """The answer as if the platform had forgotten the ids in it."""

    def strip(value: object) -> object:
        if isinstance(value, dict):
            return {name: strip(item) for name, item in value.items() if name not in ("id", "graph_id")}
        return value

    return json.dumps(strip(json.loads(body))).encode() if body.strip() else body


_error = _status(b'{"error":"fault"}')
_html = _status(HTML, "text/html")

# `status` of a fault is used by: error_*, html_*.
COURSES: Mapping[str, Course] = {
    "not_sent": Course(_not_sent, effect=False, reads=True),
    "drop_before": Course(_lost, effect=False, reads=True),
    "drop_after": Course(_lost),
    "hang_before": Course(_plain, effect=False, slow=True, reads=True),
    "hang_after": Course(_plain, slow=True),
    "late": Course(_lost, late=True),
    "late_error": Course(_error, late=True),
    "error_before": Course(_error, effect=False, reads=True),
    "error_after": Course(_error),
    "html_before": Course(_html, effect=False, reads=True),
    "html_after": Course(_html),
    "rate_limited": Course(_error, effect=False, reads=True),
    "rate_limited_for": Course(
        _status(b'{"error":"fault"}', **{"retry-after": "7"}), effect=False, reads=True
    ),
    "delay": Course(_plain, slow=True, reads=True),
    "truncated": Course(_body(lambda body: body[: len(body) // 2]), reads=True),
    "no_id": Course(_body(_without_id)),
    "empty": Course(_body(lambda body: b"")),
    "wrong_json": Course(_body(lambda body: b'["what is this"]'), reads=True),
    "app_missing": Course(_status(APP_MISSING), effect=False, reads=True),
    "empty_list": Course(_body(lambda body: b"[]"), reads=True, writes=False),
    "stale_list": Course(_plain, reads=True, writes=False, stale=True),
    "echo": Course(_plain, effect=False, echoes=True),
}

STATUSES: Mapping[str, tuple[int, ...]] = {
    "error_before": (500, 502, 503, 504, 408, 403, 409, 422),
    "error_after": (500, 502, 503, 504, 408),
    "late_error": (502, 503, 504, 408),
    "html_before": (502, 503, 404, 422, 200, 403),
    "html_after": (502, 503, 404, 422, 200),
    "rate_limited": (429,),
    "rate_limited_for": (429,),
    "app_missing": (404,),
}

# What may last for minutes: an outage, or an edge that does not know the app.
SPELLS = ("not_sent", "drop_before", "error_before", "html_before", "app_missing", "app_missing")

Channel = Literal["read", "mutation"]


def kinds_for(channel: Channel) -> tuple[str, ...]:
    """The faults that may hit a request of `channel`."""
    return tuple(
        kind for kind, course in COURSES.items() if (course.reads if channel == "read" else course.writes)
    )

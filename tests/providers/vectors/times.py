"""The timestamp: how far it may lie from the receiver's clock, and in which form it comes."""

from dataclasses import replace
from typing import Any

from tests.providers.vectors.scene import Scene, accepted, case, refused
from tests.providers.vectors.vector import Delivery, Verdict

WITHIN = "the issue: within 300 s; notes, Extension providers: the tolerance (300 s)"
INTEGER = "2.7: `timestamp` is an integer, UNIX epoch"
AS_TEXT = "2.9: UNIX timestamp, a string in the shown bodies"

# Seconds that the receiver's clock is ahead of the timestamp.
AHEAD: dict[Verdict, tuple[float, ...]] = {
    "accepted": (-300, -299, -1, 1, 299, 299.9, 300),
    "refused": (-86_400, -301, -300.5, 300.5, 301, 3_600),
}
REASONS = {"accepted": "300 s themselves are within", "refused": "more than 300 s away"}


def _sent(scene: Scene, way: str) -> Delivery:
    if way == "webhook":
        return scene.webhook()
    return scene.post(way) if way in ("POST", "PATCH") else scene.get(way)


for _verdict, _seconds in AHEAD.items():
    for _ahead in _seconds:
        for _way in ("POST", "PATCH", "GET", "DELETE", "webhook"):

            @case(f"time: clock {_ahead:+g} s, {_way}", _verdict, REASONS[_verdict], WITHIN)
            def away(scene: Scene, ahead: float = _ahead, way: str = _way) -> Delivery:
                return replace(_sent(scene, way), at=scene.now + ahead)


def _forms(now: int) -> dict[str, Any]:
    """What is no integer of seconds, for a body's field."""
    return {
        "text": str(now),
        "fraction": now + 0.5,
        "float of whole seconds": float(now),
        "negative": -now,
        "milliseconds": now * 1000,
        "microseconds": now * 1_000_000,
        "zero": 0,
        "true": True,
        "null": None,
        "list": [now],
        "object": {"seconds": now},
        "calendar date": "2026-11-21T08:00:00Z",
        "more than a float holds": 10**400,
        "empty text": "",
    }


for _form in _forms(1):

    @refused(f"time: {_form} in a body", f"{_form}: no integer, or far away", INTEGER)
    def in_body(scene: Scene, form: str = _form) -> Delivery:
        return scene.post(scene.random.choice(("POST", "PATCH")), timestamp=_forms(scene.now)[form])

    if _form != "text":  # text is what the document shows

        @refused(f"time: {_form} in a webhook", f"{_form}: no whole seconds, or far away", AS_TEXT)
        def webhook_value(scene: Scene, form: str = _form) -> Delivery:
            return scene.webhook(timestamp=_forms(scene.now)[form])


IN_QUERY = {
    "fraction": "{now}.5",
    "fraction of zero": "{now}.0",
    "exponent": "{now}e0",
    "negative": "-{now}",
    "plus sign": "+{now}",
    "space before": " {now}",
    "line end after": "{now}\n",
    "underscore": "1_{now}",
    "hex": "0x{now:x}",
    "milliseconds": "{now}000",
    "wide digits": "\uff11{now}",
    "other digits": "\u0661\u0667\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660",
    "many digits": "{now}" * 600,
    "word": "true",
    "not a number": "nan",
    "calendar date": "2026-11-21T08:00:00Z",
    "empty": "",
}

for _form, _pattern in IN_QUERY.items():
    _reason = f"{_form}: no whole seconds, or far away"

    @refused(f"time: {_form} in a query", _reason, INTEGER)
    def in_query(scene: Scene, pattern: str = _pattern) -> Delivery:
        return scene.get(scene.random.choice(("GET", "DELETE")), timestamp=pattern.format(now=scene.now))

    @refused(f"time: {_form} as text in a webhook", _reason, AS_TEXT)
    def webhook_text(scene: Scene, pattern: str = _pattern) -> Delivery:
        return scene.webhook(timestamp=pattern.format(now=scene.now))


accepted(
    "time: number in a webhook",
    "the shown bodies hold a string, 2.7 an integer: both are taken",
    f"{AS_TEXT}; 2.7",
)(lambda scene: scene.webhook(timestamp=scene.now))
refused("time: missing in a webhook", "a webhook carries its time", "2.9")(
    lambda scene: scene.webhook(timestamp=...)
)


@refused("time: beyond a float in a body", "no integer, and far away", INTEGER)
def infinite(scene: Scene) -> Delivery:
    text = scene.text(scene.fields(scene.url(), timestamp="here"))
    return scene.with_body(text.replace(b'"here"', b"1e400"), scene.url())

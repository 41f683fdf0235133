"""The timestamp: how far it may lie from the receiver's clock, and in which form it comes."""

from dataclasses import replace
from typing import Any

from tests.providers.vectors.scene import CASES, Scene
from tests.providers.vectors.vector import Delivery, Vector, Verdict

WITHIN = "the issue: within 300 s; notes, Extension providers: the tolerance (300 s)"
INTEGER = "2.7: `timestamp` is an integer, UNIX epoch"
AS_TEXT = "2.9: UNIX timestamp, a string in the shown bodies"

# Seconds that the receiver's clock is ahead of the timestamp.
AHEAD: dict[float, Verdict] = {
    -86_400: "refused",
    -301: "refused",
    -300.5: "refused",
    -300: "accepted",
    -299: "accepted",
    -1: "accepted",
    1: "accepted",
    299: "accepted",
    299.9: "accepted",
    300: "accepted",
    300.5: "refused",
    301: "refused",
    3_600: "refused",
}


def _sent(scene: Scene, way: str) -> Delivery:
    if way == "webhook":
        return scene.webhook()
    return scene.post(way) if way in ("POST", "PATCH") else scene.get(way)


for _ahead, _verdict in AHEAD.items():
    for _way in ("POST", "PATCH", "GET", "DELETE", "webhook"):

        def away(
            scene: Scene, ahead: float = _ahead, expected: Verdict = _verdict, way: str = _way
        ) -> Vector:
            sent = replace(_sent(scene, way), at=scene.now + ahead)
            reason = "300 s themselves are within" if expected == "accepted" else "more than 300 s away"
            return scene.one(sent, expected, reason, WITHIN)

        CASES[f"time: clock {_ahead:+g} s, {_way}"] = away


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

    def in_body(scene: Scene, form: str = _form) -> Vector:
        way = scene.random.choice(("POST", "PATCH"))
        value = _forms(scene.now)[form]
        return scene.one(
            scene.post(way, timestamp=value), "refused", f"{form}: no integer, or far away", INTEGER
        )

    CASES[f"time: {_form} in a body"] = in_body

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

    def in_query(scene: Scene, form: str = _form, pattern: str = _pattern) -> Vector:
        way = scene.random.choice(("GET", "DELETE"))
        sent = scene.get(way, timestamp=pattern.format(now=scene.now))
        return scene.one(sent, "refused", f"{form}: no whole seconds, or far away", INTEGER)

    CASES[f"time: {_form} in a query"] = in_query


def webhook_number(scene: Scene) -> Vector:
    reason = "the shown bodies hold a string, 2.7 an integer: both are taken"
    return scene.one(scene.webhook(timestamp=scene.now), "accepted", reason, f"{AS_TEXT}; 2.7")


CASES["time: number in a webhook"] = webhook_number

for _form in _forms(1):
    if _form == "text":
        continue  # as the document shows it

    def webhook_value(scene: Scene, form: str = _form) -> Vector:
        sent = scene.webhook(timestamp=_forms(scene.now)[form])
        return scene.one(sent, "refused", f"{form}: no whole seconds, or far away", AS_TEXT)

    CASES[f"time: {_form} in a webhook"] = webhook_value

for _form, _pattern in IN_QUERY.items():

    def webhook_text(scene: Scene, form: str = _form, pattern: str = _pattern) -> Vector:
        sent = scene.webhook(timestamp=pattern.format(now=scene.now))
        return scene.one(sent, "refused", f"{form}: no whole seconds, or far away", AS_TEXT)

    CASES[f"time: {_form} as text in a webhook"] = webhook_text


def infinite(scene: Scene) -> Vector:
    text = scene.text(scene.fields(scene.url(), timestamp="here")).replace(b'"here"', b"1e400")
    return scene.one(scene.with_body(text, scene.url()), "refused", "no integer, and far away", INTEGER)


CASES["time: beyond a float in a body"] = infinite


def webhook_without(scene: Scene) -> Vector:
    return scene.one(scene.webhook(timestamp=...), "refused", "a webhook carries its time", "2.9")


CASES["time: missing in a webhook"] = webhook_without

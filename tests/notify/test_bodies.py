"""What a stranger has written stays in its place, in each format; and the messages are of bounded size."""

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.notify.delivery import body_of
from reconciler.notify.events import Event, Item, Run

RUN = Run("apply", "prod", "https://api.example.com", 1, "ana", "", datetime(2026, 1, 1, tzinfo=UTC))
EVENT = Event("failed", RUN, "Not converged: 1 failed.", (Item("Volume/shop/data", "create failed"),))
HOSTILE = st.text(st.sampled_from("`<>&*_~!@#|:/\\ abc\u202e\"'{}$"), max_size=60) | st.sampled_from(
    ["<!channel>", "<@U1>", "</code>", "`*bold*", "<https://evil.example|click>", "&lt;!here&gt;"]
)


def slack(event: Event) -> str:
    text = json.loads(body_of(event, "slack", "msg_1").data)["text"]
    assert isinstance(text, str)
    return text


def test_slack_gets_one_line_for_each_object() -> None:
    assert slack(EVENT).splitlines() == [
        "*`apply` failed* in `prod` (`https://api.example.com`)",
        "`Not converged: 1 failed.`",
        "• `Volume/shop/data`: `create failed`",
        "by `ana`",
    ]


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_name_becomes_a_mention_a_link_or_another_style_in_slack(a: str, b: str, c: str, d: str) -> None:
    event = replace(EVENT, summary=a, items=(Item(b, c),), run=replace(RUN, by=d, job_url=a, platform=b))
    text = slack(event)
    assert "<" not in text
    assert ">" not in text
    plain, parts = slack(replace(EVENT, run=replace(RUN, job_url="x"))), text.split("`")
    words = [part for part in parts[::2] if part]  # outside of code
    assert set("".join(words)) <= set("".join(plain.split("`")[::2]))


@given(HOSTILE, HOSTILE)
def test_json_holds_it_as_it_is(a: str, b: str) -> None:
    event = replace(EVENT, summary=a, items=(Item(b, a),))
    for format in ("json", "cloudevents"):
        data = json.loads(body_of(event, format, "msg_1").data)["data"]
        assert (data["summary"], data["items"]) == (a, [{"address": b, "what": a, "place": ""}])


def test_a_channel_is_not_flooded() -> None:
    event = replace(EVENT, items=tuple(Item(f"Volume/shop/v{n}", "x" * 500) for n in range(50)), more=950)
    assert slack(event).splitlines()[-2] == "… and 980 more"
    assert len(slack(event)) < 40_000

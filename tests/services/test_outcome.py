"""The table of section 5: what each answer to a mutation means."""

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from reconciler.core.errors import Lost, NotSent
from reconciler.services.outcome import Refusal, Verdict, http_date, unanswered
from reconciler.services.outcome import classify as classify_by
from reconciler.services.platform import POLICY
from reconciler.services.transport import Answer

classify = partial(classify_by, policy=POLICY)

HTML = {"content-type": "text/html; charset=utf-8"}
JSON = {"content-type": "application/json"}
PAGE = b"<html><body>Bad gateway</body></html>"

BY_ANYONE = [401, 403, 413, 415, 429]
BY_PLATFORM = [400, 404, 409, 410, 412, 422]
OTHERS = [
    *(100, 101, 300, 301, 302, 303, 304, 307, 308),
    *(402, 405, 406, 407, 408, 411, 414, 416, 417, 418, 421, 423, 424, 425, 426, 428, 431, 451, 499),
    *(500, 501, 502, 503, 504, 505, 507, 511, 520, 599),
]
BODIES = [b"", b'{"error": "no"}', b"no", PAGE, b'{"error": ', b"[" * 100_000, b"\xff\xfe", b"null"]


def verdict(status: int, body: bytes = b"", headers: dict[str, str] | None = None, **options: Any) -> Verdict:
    return classify(Answer(status, headers or {}, body), **{"id_path": "id", **options}).kind


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("status", BY_ANYONE)
def test_a_refusal_at_the_door_is_no_with_any_body(status: int, body: bytes) -> None:
    assert verdict(status, body) is Verdict.NO
    assert verdict(status, body, HTML) is Verdict.NO


@pytest.mark.parametrize("body", [body for body in BODIES if body is not PAGE])
@pytest.mark.parametrize("status", BY_PLATFORM)
def test_a_refusal_by_the_platform_is_no_with_any_body_but_html(status: int, body: bytes) -> None:
    assert verdict(status, body) is Verdict.NO


@pytest.mark.parametrize("status", BY_PLATFORM)
@pytest.mark.parametrize(
    ("body", "headers"),
    [(PAGE, HTML), (PAGE, {}), (b"\n  <!doctype html>", {}), (b"", HTML), (b"not found", HTML)],
    ids=["page", "page without a type", "doctype", "nothing, said to be HTML", "text, said to be HTML"],
)
def test_a_refusal_in_html_is_unknown(status: int, body: bytes, headers: dict[str, str]) -> None:
    assert verdict(status, body, headers) is Verdict.UNKNOWN
    assert verdict(status, body, headers, accepts=tuple(Refusal)) is Verdict.UNKNOWN


@pytest.mark.parametrize("body", [*BODIES, b'{"id": "vol_1"}'])
@pytest.mark.parametrize("status", OTHERS)
def test_every_other_status_is_unknown_with_any_body(status: int, body: bytes) -> None:
    assert verdict(status, body) is Verdict.UNKNOWN
    assert verdict(status, body, id_path=None) is Verdict.UNKNOWN


def test_the_three_lists_cover_each_status_once() -> None:
    assert len({*BY_ANYONE, *BY_PLATFORM, *OTHERS}) == len([*BY_ANYONE, *BY_PLATFORM, *OTHERS])


@pytest.mark.parametrize("status", [200, 201, 202, 206, 299])
@pytest.mark.parametrize(
    ("reply", "id_path", "id"),
    [
        ({"id": "vol_1"}, "id", "vol_1"),
        ({"data": {"id": "c1", "status": 7, "endpoints": "odd"}}, "data.id", "c1"),
        ({"Msg": {"backup": {"graph_id": "vs_1"}}}, "Msg.backup.graph_id", "vs_1"),
        ({"id": 12}, "id", "12"),
        ({"id": "148ed726c12358"}, "id", "148ed726c12358"),
        ({"id": "018f3c1e-7b1a-7c3d-9e2f-0123456789ab"}, "id", "018f3c1e-7b1a-7c3d-9e2f-0123456789ab"),
        ({"id": "ext-944beaf24801-lineage-1"}, "id", "ext-944beaf24801-lineage-1"),
        ({"id": "x" * 255}, "id", "x" * 255),
    ],
)
def test_a_2xx_with_the_id_that_is_due_is_yes(status: int, reply: Any, id_path: str, id: str) -> None:
    outcome = classify(Answer(status, JSON, json.dumps(reply).encode()), id_path=id_path)
    assert (outcome.kind, outcome.id, outcome.reply, outcome.message) == (Verdict.YES, id, reply, "")


def test_an_id_counts_before_anything_else_is_looked_at() -> None:
    outcome = classify(Answer(200, HTML, b'{"id": "vol_1", "size_gb": "ten"}'), id_path="id")
    assert (outcome.kind, outcome.id) == (Verdict.YES, "vol_1")


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{}", b'{"id": null}', b'{"id": ""}', b'{"id": " "}', b'{"id": true}', b'{"id": ["vol_1"]}'),
        *(b'{"id": "vol_1$(touch pwn)"}', b'{"id": "../../v1?x#y"}', b'{"id": ".."}', b'{"id": "-vol_1"}'),
        *(b'{"id": "vol 1"}', b'{"id": "vol_1\\u202e"}', b'{"id": "%s"}' % (b"x" * 256)),
        *(b'{"data": {"id": "vol_1"}}', b'["vol_1"]', b"null", b'"vol_1"', b'{"id": "vol_1"', b"created"),
        *(PAGE, b"[" * 100_000),
    ],
)
def test_a_2xx_without_the_id_that_is_due_is_unknown(body: bytes) -> None:
    outcome = classify(Answer(201, {}, body), id_path="id")
    assert (outcome.kind, outcome.id) == (Verdict.UNKNOWN, None)
    assert outcome.message


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"", {}, Verdict.YES),
        (b" \n", {}, Verdict.YES),
        (b'{"ok": true}', {}, Verdict.YES),
        (b"[]", {}, Verdict.YES),
        (b"null", {}, Verdict.YES),
        (b"OK", {}, Verdict.UNKNOWN),
        (b'{"ok": tr', {}, Verdict.UNKNOWN),
        (PAGE, {}, Verdict.UNKNOWN),
        (b"", HTML, Verdict.UNKNOWN),
    ],
)
def test_a_2xx_without_an_id_is_empty_or_json(
    body: bytes, headers: dict[str, str], expected: Verdict
) -> None:
    assert verdict(200, body, headers, id_path=None) is expected


@pytest.mark.parametrize(
    ("status", "error", "accepted", "expected"),
    [
        (404, "volume not found", "not_found", Verdict.YES),
        (404, "", "not_found", Verdict.YES),
        (404, "Could not find App", "not_found", Verdict.NO),
        (410, "This cluster is being deleted", "gone", Verdict.YES),
        (410, "This cluster has been deleted", "not_found", Verdict.NO),
        (412, "failed_precondition: snapshot is already scheduled at 1", "snapshot_scheduled", Verdict.YES),
        (412, "failed_precondition: something else", "snapshot_scheduled", Verdict.NO),
        (412, "volume is currently bound to machine: m1", "snapshot_scheduled", Verdict.NO),
        (408, "deadline_exceeded: machine failed to reach", "state_not_reached", Verdict.YES),
        (408, "request timeout", "state_not_reached", Verdict.UNKNOWN),
        (403, "not found", "not_found", Verdict.NO),
    ],
)
def test_only_an_accepted_refusal_is_yes(status: int, error: str, accepted: str, expected: Verdict) -> None:
    body = json.dumps({"error": error}).encode()
    assert verdict(status, body, JSON, accepts=(accepted,)) is expected


@pytest.mark.parametrize(
    ("status", "reply", "refusal"),
    [
        (404, {"error": "Could not find App"}, "app_missing"),
        (404, {"error": 'Could not find App "shop"'}, "app_missing"),
        (404, {"error": "Could not find Application config"}, "not_found"),
        (412, {"error": "failed_precondition: snapshot is already scheduled at x"}, "snapshot_scheduled"),
        (412, {"error": "failed_precondition: volume is currently bound to machine: 1"}, "volume_bound"),
        (422, {"error": "no", "status": "insufficient_capacity"}, "no_capacity"),
        (412, {"error": "no", "status": "volume_placement_capacity"}, "no_capacity"),
        (422, {"error": "unique zones are used up"}, "no_capacity"),
        (412, {"error": "snapshot is already scheduled", "status": "insufficient_capacity"}, "no_capacity"),
        (412, {"message": "Snapshot is already scheduled"}, "snapshot_scheduled"),
        (422, {"error": "snapshot is already scheduled"}, None),
        (429, {}, "rate_limited"),
        (400, {"error": "bad"}, None),
    ],
)
def test_refusals_differ_by_code_word_or_text(
    status: int, reply: dict[str, str], refusal: str | None
) -> None:
    assert classify(Answer(status, JSON, json.dumps(reply).encode()), id_path=None).refusal == refusal


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": "a", "message": "b", "errors": {"detail": "c"}}', "a"),
        (b'{"error": "", "message": "b", "errors": {"detail": "c"}}', "b"),
        (b'{"error": {"code": 1}, "errors": {"detail": "c"}}', "c"),
        (b'{"status": "invalid_argument"}', "invalid_argument"),
        (b'"text"', "text"),
        (b"plain text\n", "plain text"),
        (b"", "no reason was given"),
        (b"[]", "[]"),
        (b"\xffoops", "\N{REPLACEMENT CHARACTER}oops"),
    ],
)
def test_the_error_text_is_found_wherever_the_platform_puts_it(body: bytes, message: str) -> None:
    assert classify(Answer(422, {}, body), id_path=None).message == message


def test_an_error_text_is_one_clean_line_of_bounded_length() -> None:
    nasty = "a\x1b[31mb\x00c\u202ed\r\ne\u0085f" + "g" * 10_000
    message = classify(Answer(400, JSON, json.dumps({"error": nasty}).encode()), id_path=None).message
    assert message.startswith("a [31mb c d e fggg")
    assert message.isprintable()
    assert len(message) == 500


@pytest.mark.parametrize("header", ["x-request-id", "request-id", "platform-request-id"])
def test_the_request_id_is_found_under_any_prefix(header: str) -> None:
    for status in (200, 500):
        assert classify(Answer(status, {"date": "x", header: "r1"}, b""), id_path=None).request_id == "r1"


def test_a_request_that_provably_was_not_sent_is_no_and_a_lost_one_is_unknown() -> None:
    refused = unanswered(NotSent("cannot connect: refused"))
    assert (refused.kind, refused.status, refused.message) == (Verdict.NO, 0, "cannot connect: refused")
    assert unanswered(Lost("reset")).kind is Verdict.UNKNOWN


def test_the_repr_of_an_outcome_does_not_show_the_reply() -> None:
    assert "hunter2" not in repr(classify(Answer(200, JSON, b'{"value": "hunter2"}'), id_path=None))


@pytest.mark.parametrize("text", ["Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 1900 00:00:00 GMT", "soon"])
def test_a_date_that_no_clock_shows_is_none(text: str) -> None:
    """Time is added to what a clock shows; by a fuzzed answer."""
    assert http_date(text) is None
    assert http_date("Thu, 01 Jan 2026 01:03:02 GMT") == datetime(2026, 1, 1, 1, 3, 2, tzinfo=UTC)

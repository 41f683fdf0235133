import json
import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
import structlog.testing

from reconciler.core.errors import (
    AppMissing,
    Lost,
    NotFound,
    NotSent,
    PlatformError,
    ReconcilerError,
    Refused,
    TooLarge,
    Unauthorized,
    UnreadableAnswer,
)
from reconciler.core.steps import Call, Method, Read
from reconciler.core.wire import many, parse_time
from reconciler.services.machines.wire.cluster import Cluster
from reconciler.services.machines.wire.secret import Secret
from reconciler.services.machines.wire.volume import Snapshot, Volume
from reconciler.services.outcome import Verdict
from reconciler.services.transport import Answer
from tests.services.script import START, Script, platform, reply

VOLUMES = "/v1/apps/shop/volumes"
SECRET = "/v1/apps/shop/secrets/PG_PASSWORD"
VALUE = "hunter2"


def pauses(script: Script) -> list[float]:
    moments = [sent.at_s for sent in script.sent]
    return [later - earlier for earlier, later in pairwise(moments)]


# --- reading ---


async def test_a_read_gives_the_objects_and_the_platforms_own_time() -> None:
    client, script = platform(reply('[{"id": "vol_1", "size_gb": 10}]', date="Tue, 02 Jan 2024 03:04:05 GMT"))
    seen = await client.read(Read(VOLUMES, many(Volume)))
    assert [(volume.id, volume.size_gb) for volume in seen.objects] == [("vol_1", 10)]
    assert seen.complete
    assert seen.at == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert script.sent[0].url == "https://platform.example/api/v1/apps/shop/volumes"
    assert script.sent[0].headers == {
        "authorization": "Bearer t0ken",
        "accept": "application/json",
        "user-agent": "reconciler/test",
    }


@pytest.mark.parametrize("date", ["", "yesterday", "Tue, 99 Jan 2024 03:04:05 GMT"])
async def test_without_a_readable_date_our_own_clock_tells_the_time(date: str) -> None:
    client, _ = platform(reply("[]", date=date))
    assert (await client.read(Read(VOLUMES, many(Volume)))).at == START


async def test_unknown_fields_are_kept_and_missing_ones_are_told_from_null() -> None:
    client, _ = platform(reply('[{"id": "v", "host_status": "ok", "zone": null, "state": "brand_new"}]'))
    volume = (await client.read(Read(VOLUMES, many(Volume)))).objects[0]
    assert volume.host_status == "ok"
    assert volume.state == "brand_new"
    assert "zone" in volume.model_fields_set
    assert "region" not in volume.model_fields_set


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02T03:04:05.12Z", datetime(2024, 1, 2, 3, 4, 5, 120_000, tzinfo=UTC)),
        ("2024-01-02T03:04:05.123456789Z", datetime(2024, 1, 2, 3, 4, 5, 123_456, tzinfo=UTC)),
        ("2024-01-02T03:04:05.123+02:00", datetime(2024, 1, 2, 1, 4, 5, 123_000, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("soon", None),
    ],
)
async def test_times_of_every_precision_are_read(text: str, moment: datetime | None) -> None:
    client, _ = platform(reply(json.dumps([{"id": "vs_1", "created_at": text}])))
    snapshot = (await client.read(Read(f"{VOLUMES}/vol_1/snapshots", many(Snapshot)))).objects[0]
    assert parse_time(snapshot.created_at) == moment


@pytest.mark.parametrize(
    "answer",
    [
        reply("<html>maintenance</html>", content_type="text/html"),
        reply(""),
        reply("[{"),
        reply('{"error": "no"}'),
        reply("null"),
        reply('[{"name": "without an id"}]'),
        reply("[" * 100_000),
        reply("[]", status=206),
        reply("", status=204),
        reply("", status=302, location="https://elsewhere.example"),
    ],
)
async def test_an_answer_that_is_not_documented_is_unreadable_and_no_empty_list(
    answer: Answer,
) -> None:
    client, script = platform(answer)
    with pytest.raises(UnreadableAnswer) as caught:
        await client.read(Read(VOLUMES, many(Volume)))
    assert (caught.value.path, caught.value.status) == (VOLUMES, answer.status)
    assert len(script.sent) == 1


async def test_an_unreadable_answer_is_located_and_not_quoted() -> None:
    client, _ = platform(reply('[{"id": "a"}, {"id": {"secret": "hunter2"}}]', x_request_id="r1"))
    with pytest.raises(UnreadableAnswer, match=r"`1\.id`: string_type") as caught:
        await client.read(Read(VOLUMES, many(Volume)))
    assert caught.value.request_id == "r1"
    assert caught.value.__cause__ is None
    assert VALUE not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply('{"error": "Could not find App"}', 404), AppMissing),
        (reply('{"error": "volume not found"}', 404), NotFound),
        (reply("", 404), NotFound),
        (reply('{"error": "has been deleted"}', 410), NotFound),
        (reply("<html>404</html>", 404), PlatformError),
        (reply('{"error": "unauthorized"}', 401), Unauthorized),
        (reply('{"error": "unauthorized"}', 403), Unauthorized),
        (reply("<html>login</html>", 403), Unauthorized),
        (reply('{"error": "bad"}', 400), PlatformError),
    ],
)
async def test_a_refused_read_has_a_class_and_no_retry(answer: Answer, error: type[PlatformError]) -> None:
    client, script = platform(answer)
    with pytest.raises(error) as caught:
        await client.read(Read(VOLUMES, many(Volume)))
    assert type(caught.value) is error
    assert caught.value.status == answer.status
    assert len(script.sent) == 1


async def test_a_failed_read_names_path_status_request_and_the_platforms_words() -> None:
    client, _ = platform(reply('{"error": "unauthorized"}', 403, x_request_id="r1"))
    with pytest.raises(Unauthorized) as caught:
        await client.read(Read(VOLUMES, many(Volume)))
    assert caught.value.message == "GET /v1/apps/shop/volumes was answered 403: unauthorized"
    assert (caught.value.path, caught.value.request_id) == (VOLUMES, "r1")


# --- retries of reads ---


@pytest.mark.parametrize(
    "trouble", [reply("", 429), reply("", 500), reply("<html>", 503), NotSent("refused"), Lost("reset")]
)
async def test_a_read_is_retried_after_trouble_that_may_pass(trouble: Answer | Exception) -> None:
    client, script = platform(trouble, trouble, reply("[]"))
    assert (await client.read(Read(VOLUMES, many(Volume)))).objects == []
    assert pauses(script) == [0.5, 1.0]


@pytest.mark.parametrize(
    ("asked", "pause_s"),
    [
        ("7", 7.0),
        ("0", 0.1),
        ("Thu, 01 Jan 2026 00:00:09 GMT", 9.0),
        ("Thu, 01 Jan 2025 00:00:00 GMT", 0.1),
        ("-3", 0.5),
        ("a while", 0.5),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_a_read_waits_as_long_as_the_platform_asks(status: int, asked: str, pause_s: float) -> None:
    client, script = platform(reply("", status, retry_after=asked), reply("[]"))
    await client.read(Read(VOLUMES, many(Volume)))
    assert pauses(script) == [pause_s]


async def test_a_moment_to_wait_for_is_measured_by_the_platforms_own_clock() -> None:
    date, later = "Mon, 01 Jan 2024 00:00:00 GMT", "Mon, 01 Jan 2024 00:00:04 GMT"
    client, script = platform(reply("", 429, retry_after=later, date=date), reply("[]"))
    await client.read(Read(VOLUMES, many(Volume)))
    assert pauses(script) == [4.0]


async def test_a_read_gives_up_at_once_when_asked_to_wait_longer_than_its_budget() -> None:
    client, script = platform(reply("", 429, retry_after="60"))
    with pytest.raises(PlatformError) as caught:
        await client.read(Read(VOLUMES, many(Volume)))
    assert (caught.value.status, len(script.sent)) == (429, 1)
    assert caught.value.help == "the platform asks to wait: retry-after 60"


async def test_a_read_gives_up_within_20_seconds() -> None:
    client, script = platform(reply('{"error": "down"}', 503), takes_s=1)
    with pytest.raises(PlatformError, match="answered 503: down"):
        await client.read(Read(VOLUMES, many(Volume)))
    assert len(script.sent) > 3
    assert script.clock.elapsed_s <= 20


async def test_a_hung_connection_leaves_time_for_a_second_attempt() -> None:
    client, script = platform(Lost("no complete answer within 10 s"), takes_s=10)
    with pytest.raises(
        PlatformError, match=r"at platform\.example:443 got no answer: no complete answer"
    ) as caught:
        await client.read(Read(VOLUMES, many(Volume)))
    assert (caught.value.status, caught.value.path) == (0, VOLUMES)
    assert [sent.deadline_s for sent in script.sent] == [10.0, 9.5]


# --- sending ---


async def test_a_mutation_is_sent_as_compact_json_with_its_deadline() -> None:
    client, script = platform(reply('{"id": "vol_1"}', 201))
    outcome = await client.send(
        Call("POST", VOLUMES, {"name": "d", "size_gb": 3}), id_path="id", deadline_s=12
    )
    assert (outcome.kind, outcome.id) == (Verdict.YES, "vol_1")
    assert (script.sent[0].method, script.sent[0].body) == ("POST", b'{"name":"d","size_gb":3}')
    assert script.sent[0].headers["content-type"] == "application/json"
    assert script.sent[0].deadline_s == 12


async def test_a_mutation_without_a_body_sends_none_and_no_content_type() -> None:
    client, script = platform(reply('{"id": "vol_1"}'))
    await client.send(Call("DELETE", f"{VOLUMES}/vol_1", None), id_path="id")
    assert script.sent[0].body is None
    assert "content-type" not in script.sent[0].headers


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (reply("", 429, retry_after="1"), Verdict.NO),
        (NotSent("refused"), Verdict.NO),
        (reply("", 503, retry_after="1"), Verdict.UNKNOWN),
        (reply("", 500), Verdict.UNKNOWN),
        (reply("{}", 201), Verdict.UNKNOWN),
        (Lost("reset"), Verdict.UNKNOWN),
    ],
)
async def test_a_mutation_is_never_sent_twice(step: Answer | Exception, kind: Verdict) -> None:
    client, script = platform(step, reply('{"id": "vol_1"}'))
    assert (await client.send(Call("POST", VOLUMES, {"name": "d"}), id_path="id")).kind is kind
    assert len(script.sent) == 1


async def test_in_read_only_mode_nothing_but_get_is_sent() -> None:
    client, script = platform(reply("[]"), read_only=True)
    await client.read(Read(VOLUMES, many(Volume)))
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(Refused, match="only reads"):
            await client.send(Call(method, VOLUMES, None), id_path=None)
    assert len(script.sent) == 1


UNSAFE = [
    *("v1/apps", "", "/", "//elsewhere.example/v1", "https://elsewhere.example/v1", "@elsewhere.example/v1"),
    *("/v1/apps/../postgres", "/v1/apps/./x", "/v1/apps/%2e%2E/x", "/v1/apps/a%2Fb/volumes"),
    *("/v1/apps/a%5cb", "/v1/apps/a%00", "/v1/apps/a%0d%0ab", "/v1/apps/a b", "/v1/apps/a\r\nHost: x"),
    *("/v1/apps/a\\b", "/v1/apps/%zz", "/v1/apps//volumes", "/v1/apps/", "/v1/apps/a#b", "/v1/apps/ü"),
    *("/v1/apps?a=b\n", "/v1/apps?a=b&c", "/v1/apps?a=b?c=d"),
]


@pytest.mark.parametrize("path", UNSAFE)
async def test_an_unsafe_path_is_refused_before_anything_is_sent(path: str) -> None:
    client, script = platform(reply("[]"))
    for method in ("GET", "DELETE"):
        with pytest.raises(Refused, match="not a path"):
            await client.send(Call(method, path, None), id_path=None)
    with pytest.raises(Refused, match="not a path"):
        await client.read(Read(path, many(Volume)))
    assert script.sent == []


async def test_only_a_get_may_carry_a_query() -> None:
    client, script = platform(reply('{"data": []}'))
    await client.read(Read("/v1/postgres?org_slug=my%20org&include_deleted=true", many(Cluster)))
    assert script.sent[0].url.endswith("/v1/postgres?org_slug=my%20org&include_deleted=true")
    with pytest.raises(Refused):
        await client.send(Call("DELETE", "/v1/postgres/c1?force=true", None), id_path=None)


@pytest.mark.parametrize(
    "path", ["/v1/apps/a.b/volumes", "/v1/apps/..a/x", "/v1/apps/a%20b", "/v1/x/vol_1~2"]
)
async def test_ordinary_names_pass_as_they_are(path: str) -> None:
    client, script = platform(reply())
    await client.send(Call("DELETE", path, None), id_path=None)
    assert script.sent[0].url == f"https://platform.example/api{path}"


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "tökén", "nul\0"])
async def test_a_token_that_cannot_stand_in_a_header_is_refused_without_being_shown(token: str) -> None:
    client, script = platform(reply("[]"), token=token)
    with pytest.raises(ReconcilerError, match="token is empty, or contains") as caught:
        await client.read(Read(VOLUMES, many(Volume)))
    assert not token or token not in caught.value.message + caught.value.help
    assert script.sent == []


# --- secrets ---


@pytest.mark.parametrize(
    "answer",
    [
        reply(
            json.dumps({"name": "PG_PASSWORD", "version": 3, "digest": "d", "value": VALUE, "echo": VALUE})
        ),
        reply(json.dumps({"error": f"invalid value {VALUE}", "details": {"value": VALUE}}), 422),
        reply(json.dumps({"status": VALUE}), 500),
        reply(json.dumps(VALUE), 400),
        reply(VALUE),
        reply(json.dumps({"secrets": [{"name": "A", "value": VALUE}]})),
        reply(json.dumps([VALUE])),
    ],
)
async def test_no_answer_about_a_secret_lets_its_value_out_of_the_client(answer: Answer) -> None:
    client, script = platform(answer)
    outcome = await client.send(Call("POST", SECRET, {"value": VALUE}, sensitive=True), id_path=None)
    assert script.sent[0].body == b'{"value":"hunter2"}'
    assert VALUE not in f"{outcome!r} {outcome.reply} {outcome.message} {outcome.id}"


async def test_the_harmless_fields_of_a_secret_come_back() -> None:
    body = {"name": "A", "Version": 3, "version": 3, "digest": "d", "created_at": "x", "updated_at": "y"}
    client, _ = platform(reply(json.dumps({**body, "value": VALUE}), 201))
    outcome = await client.send(Call("POST", SECRET, {"value": VALUE}, sensitive=True), id_path=None)
    assert (outcome.kind, outcome.reply) == (Verdict.YES, body)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (VALUE, VALUE),
        (VALUE, f"v1:{VALUE}"),
        (f"postgres://app:{VALUE}@host", VALUE),
        (VALUE, {"of": VALUE}),
        (VALUE, [VALUE]),
        ("x", "x"),
        ("20815001", 20815001),
    ],
)
async def test_a_digest_that_repeats_the_value_is_unknown(value: str, told: object) -> None:
    client, _ = platform(reply(json.dumps({"name": "A", "version": 3, "digest": told}), 201))
    outcome = await client.send(Call("POST", SECRET, {"value": value}, sensitive=True), id_path=None)
    assert (outcome.kind, outcome.reply) == (Verdict.YES, {"name": "A", "version": 3})


@pytest.mark.parametrize("value", ["d", "c0ffe", "C0FFEE"])
async def test_a_digest_that_holds_a_short_value_by_chance_is_kept(value: str) -> None:
    body = {"name": "A", "version": 3, "digest": "bad1c0ffee"}
    client, _ = platform(reply(json.dumps(body), 201))
    assert (
        await client.send(Call("POST", SECRET, {"value": value}, sensitive=True), id_path=None)
    ).reply == body


async def test_a_refused_secret_keeps_what_the_table_recognises() -> None:
    client, _ = platform(reply('{"error": "Could not find App"}', 404))
    outcome = await client.send(Call("POST", SECRET, {"value": VALUE}, sensitive=True), id_path=None)
    assert outcome.message == (
        f"POST {SECRET} was answered 404: app_missing; the platform's words are not shown: "
        "they may repeat the value"
    )


async def test_a_refused_removal_of_a_secret_shows_the_platforms_words() -> None:
    client, _ = platform(reply('{"error": "still in use"}', 409))
    assert (
        await client.send(Call("DELETE", SECRET, None, sensitive=True), id_path=None)
    ).message == f"DELETE {SECRET} was answered 409: still in use"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply('{"error": "no room"}', 422), "PUT /v1/apps/shop/volumes/vol_1 was answered 422: no room"),
        (reply("", 503), "PUT /v1/apps/shop/volumes/vol_1 was answered 503: no reason was given"),
        (
            reply("{}", 201),
            "PUT /v1/apps/shop/volumes/vol_1 was answered 201: the answer has no valid id at `id`",
        ),
        (
            Lost("the connection failed"),
            "PUT /v1/apps/shop/volumes/vol_1 at platform.example:443 got no answer: the connection failed",
        ),
    ],
    ids=["refused", "without a word", "without an id", "lost"],
)
async def test_an_outcome_names_call_and_status_or_address(answer: Answer | Lost, message: str) -> None:
    client, _ = platform(answer)
    outcome = await client.send(Call("PUT", "/v1/apps/shop/volumes/vol_1", {"a": 1}), id_path="id")
    assert outcome.message == message


async def test_a_list_of_secrets_is_read_without_values() -> None:
    body = {"secrets": [{"name": "A", "digest": "d", "value": VALUE}], "value": VALUE}
    client, _ = platform(reply(json.dumps(body)))
    seen = await client.read(Read("/v1/apps/shop/secrets", many(Secret), sensitive=True))
    assert [secret.model_dump(exclude_none=True) for secret in seen.objects] == [{"name": "A", "digest": "d"}]


async def test_an_app_called_secrets_is_an_ordinary_app() -> None:
    client, _ = platform(reply('{"id": "vol_1", "zone": "z"}'))
    outcome = await client.send(Call("POST", "/v1/apps/secrets/volumes", {"name": "d"}), id_path="id")
    assert outcome.reply == {"id": "vol_1", "zone": "z"}


async def test_an_answer_that_is_too_large_is_not_asked_for_again() -> None:
    client, script = platform(TooLarge("the answer is larger than 10485760 bytes"))
    with pytest.raises(PlatformError, match="larger than"):
        await client.read(Read(VOLUMES, many(Volume)))
    assert len(script.sent) == 1


# --- rate ---


async def sent_at(paths: Sequence[tuple[Method, str]], **options: Any) -> list[float]:
    client, script = platform(reply('{"id": "x"}'), **options)
    for method, path in paths:
        await client.rate.wait(client.action(Call(method, path)))
        await client.send(Call(method, path, None), id_path=None)
    return [sent.at_s for sent in script.sent]


async def test_one_action_of_one_app_is_sent_once_a_second_after_a_burst_of_three() -> None:
    same: list[tuple[Method, str]] = [("PUT", f"{VOLUMES}/vol_{n}") for n in range(6)]
    assert await sent_at(same, rate_limit=1.0) == [0, 0, 0, 1, 2, 3]


async def test_the_time_of_waiting_for_the_limit_is_known() -> None:
    client, _ = platform(reply(), rate_limit=1.0)
    for _ in range(6):
        await client.rate.wait(client.action(Call("POST", VOLUMES)))
        await client.send(Call("POST", VOLUMES, None), id_path=None)
    assert client.rate.waited_s == 3


async def test_what_was_never_sent_does_not_hold_up_others_for_ever() -> None:
    client, script = platform(reply(), rate_limit=1.0)
    for _ in range(6):
        await client.rate.wait(client.action(Call("POST", VOLUMES)))  # and the intent could not be recorded
    await script.clock.sleep(600)
    for _ in range(3):
        await client.rate.wait(client.action(Call("POST", VOLUMES)))
        await client.send(Call("POST", VOLUMES, None), id_path=None)
    assert len({sent.at_s for sent in script.sent}) == 1


async def test_other_actions_apps_machines_and_clusters_do_not_wait_for_each_other() -> None:
    different: list[tuple[Method, str]] = [
        ("GET", VOLUMES),
        ("GET", VOLUMES),
        ("GET", VOLUMES),
        ("POST", VOLUMES),
        ("GET", f"{VOLUMES}/vol_1"),
        ("GET", f"{VOLUMES}/vol_1/snapshots"),
        ("GET", "/v1/apps/other/volumes"),
        *[("POST", f"/v1/apps/shop/machines/m{n}/suspend") for n in range(5)],
        *[("GET", f"/v1/postgres/c{n}") for n in range(5)],
    ]
    assert set(await sent_at(different, rate_limit=1.0)) == {0}


async def test_an_idle_time_brings_back_no_more_than_the_burst() -> None:
    client, script = platform(reply(), rate_limit=1.0)
    for pause_s in (0, 0, 0, 100, 0, 0, 0):
        await script.clock.sleep(pause_s)
        await client.rate.wait(client.action(Call("POST", VOLUMES)))
        await client.send(Call("POST", VOLUMES, None), id_path=None)
    assert [sent.at_s for sent in script.sent] == [0, 0, 0, 100, 100, 100, 101]


# --- logs ---


@pytest.fixture
def debug_logging() -> Iterator[None]:
    logger = logging.getLogger("reconciler.http")
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(logging.NOTSET)


@pytest.mark.usefixtures("debug_logging")
async def test_a_request_is_logged_with_neither_body_nor_token() -> None:
    client, _ = platform(reply(json.dumps({"value": VALUE}), 201), Lost("reset"), takes_s=0.25)
    with structlog.testing.capture_logs() as logs:
        await client.send(Call("POST", SECRET, {"value": VALUE}, sensitive=True), id_path=None)
        await client.send(Call("POST", SECRET, {"value": VALUE}, sensitive=True), id_path=None)
    common = {"event": "http.request", "log_level": "debug", "method": "POST", "path": SECRET}
    assert logs == [
        {**common, "status": 201, "elapsed_ms": 250},
        {**common, "status": 0, "elapsed_ms": 250},
    ]


async def test_nothing_is_logged_unless_somebody_listens() -> None:
    client, _ = platform(reply("[]"))
    with structlog.testing.capture_logs() as logs:
        await client.read(Read(VOLUMES, many(Volume)))
    assert logs == []


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_failed_read_of_secrets_does_not_show_the_platforms_words(status: int) -> None:
    client, _ = platform(reply(json.dumps({"error": f"bad value {VALUE}", "status": VALUE}), status))
    with pytest.raises(PlatformError) as caught:
        await client.read(Read("/v1/apps/shop/secrets", many(Secret), sensitive=True))
    assert VALUE not in caught.value.message + caught.value.help
    assert str(status) in caught.value.message


TOKEN = 't0k"\\/&en'


@pytest.mark.parametrize("status", [401, 422, 500])
@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"error": f"bad token {TOKEN}", TOKEN: [TOKEN]}),
        json.dumps({"error": f"bad token {TOKEN}"}).replace("/", "\\/").replace("&", "\\u0026"),
        f"bad token {TOKEN}",
    ],
    ids=["json", "escaped", "text"],
)
async def test_a_token_that_an_error_repeats_does_not_leave_the_client(status: int, body: str) -> None:
    client, _ = platform(reply(body, status, x_request_id=f"{TOKEN}-1", retry_after=TOKEN), token=TOKEN)
    with pytest.raises(PlatformError) as caught:
        await client.read(Read(VOLUMES, many(Volume)))
    assert "bad token (sensitive)" in caught.value.message
    outcome = await client.send(Call("POST", VOLUMES, {"name": "d"}), id_path="id")
    shown = f"{caught.value.message} {caught.value.help} {caught.value.request_id} {outcome.message}"
    assert TOKEN not in f"{shown} {outcome.request_id} {outcome.reply}"
    assert "t0k" not in shown

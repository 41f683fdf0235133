"""Who may call: everything that is not surely the platform's gets the same refusal."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from reconciler.core.errors import ReconcilerError
from reconciler.providers.kit import ProviderSettings, create_app, intake
from reconciler.services import signing
from tests.providers.kit.stage import PUBLIC_URL, SECRET, Counting, Stage, error_of, staged
from tests.providers.serve import Reply, order


def _refusal(reply: Reply) -> tuple[int, bytes, dict[str, str]]:
    return reply.status, reply.body, dict(reply.headers)


async def _bad_calls(stage: Stage) -> dict[str, Reply]:
    good = stage.sign("POST", "/extensions", order("a"))
    get = stage.sign("GET", "/extensions/a")
    stranger = replace(stage.platform, secret="another")
    now = int(stage.clock.now().timestamp())
    replayed = stage.sign("GET", "/extensions/a")
    await stage.send(replayed)
    huge = stage.sign("POST", "/extensions", order("a", name="x" * signing.MAX_SIGNED))
    return {
        "no signature": await stage.send(replace(good, signatures=())),
        "two signatures": await stage.send(replace(good, signatures=(*good.signatures, *good.signatures))),
        "another secret": await stage.send(
            stranger.sign("POST", "/extensions", order("a"), timestamp=now, nonce="n")
        ),
        "a changed byte": await stage.send(replace(good, body=good.body.replace(b"shop", b"shoq"))),
        "serialised again": await stage.send(replace(good, body=json.dumps(json.loads(good.body)).encode())),
        "another path": await stage.send(replace(get, url=get.url.replace("/a?", "/b?", 1))),
        "an encoded path": await stage.send(replace(get, url=get.url.replace("/a?", "/%61?", 1))),
        "a path that is not there": await stage.send(replace(get, url=get.url.replace("/a?", "/a/b/c?", 1))),
        "a method that is not there": await stage.send(replace(good, method="PUT")),
        "too late": await stage.send(
            stage.platform.sign("GET", "/extensions/a", timestamp=now - 301, nonce="late")
        ),
        "twice": await stage.send(replayed),
        "too large": await stage.send(huge),
        "nothing signed at all": await stage.raw("GET", "/extensions/a"),
        "an unsigned event": await stage.raw("POST", "/extensions/events", body=b"{}"),
        "unsigned costs": await stage.raw("GET", "/costs"),
    }


async def test_every_refusal_is_the_same(store: Path) -> None:
    functions = Counting()
    async with staged(store, functions) as stage:
        replies = await _bad_calls(stage)
    assert {name: reply.status for name, reply in replies.items() if reply.status != 401} == {}
    first, *others = (_refusal(reply) for reply in replies.values())
    assert all(other == first for other in others)
    assert functions.calls == []


async def test_the_host_header_is_not_asked(store: Path) -> None:
    async with staged(store, Counting()) as stage:
        request = stage.sign("POST", "/extensions", order("a"))
        assert (await stage.send(request, host="evil.example.com")).status == 201


async def test_a_call_for_another_provider_is_refused_whatever_host_it_names(store: Path) -> None:
    async with staged(store, Counting()) as stage:
        other_server = replace(stage.platform, public_url="https://other.example.com")
        now = int(stage.clock.now().timestamp())
        request = other_server.sign("POST", "/extensions", order("a"), timestamp=now)
        request = replace(request, url=f"{PUBLIC_URL}/extensions")
        assert (await stage.send(request, host="other.example.com")).status == 401


async def test_while_rotating_both_secrets_are_taken(store: Path) -> None:
    secrets = [b"the new one", SECRET.encode()]
    async with staged(store, Counting(), signing_secrets=secrets) as stage:
        assert (await stage.provision("a")).status == 201
        stage.platform = replace(stage.platform, secret="the new one")
        assert (await stage.provision("a")).status == 201


async def test_old_nonces_are_forgotten_and_not_before_their_time(store: Path) -> None:
    async with staged(store, Counting()) as stage:
        await stage.call("GET", "/extensions/a")
        stage.clock.elapsed_s += signing.KEEP_S
        for _ in range(300):
            await stage.call("GET", "/extensions/a")
        count = stage.kit.store.row("SELECT count(*) AS n FROM nonces")
        assert count is not None
        assert count["n"] == 301
        stage.clock.elapsed_s += signing.KEEP_S + 61
        for _ in range(300):
            await stage.call("GET", "/extensions/a")
        count = stage.kit.store.row("SELECT count(*) AS n FROM nonces")
        assert count is not None
        assert count["n"] == 300


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"user_role": "owner"}, "user_role"),
        ({"name": ""}, "name"),
        ({"organization_id": 7}, "organization_id"),
        ({"read_regions": ["ams", 1]}, "read_regions.1"),
        ({"id": "../a"}, "id"),
    ],
)
async def test_what_is_authentic_and_wrong_is_refused_by_the_fields_name(
    store: Path, changes: dict[str, Any], named: str
) -> None:
    async with staged(store, Counting()) as stage:
        reply = await stage.call("POST", "/extensions", {**order("a"), **changes})
    assert reply.status == 422
    assert error_of(reply).startswith(f"`{named}`: ")


async def test_a_missing_field_is_named(store: Path) -> None:
    async with staged(store, Counting()) as stage:
        body = {name: value for name, value in order("a").items() if name != "user_email"}
        assert error_of(await stage.call("POST", "/extensions", body)) == "`user_email`: field required"


async def test_who_calls_too_often_is_told_to_wait(store: Path) -> None:
    async with staged(store, Counting(), rate=1.0) as stage:
        statuses = [(await stage.call("GET", "/extensions/a")).status for _ in range(3)]
        assert statuses == [404, 404, 429]
        stage.clock.elapsed_s += 1
        assert (await stage.call("GET", "/extensions/a")).status == 404


async def test_strangers_do_not_use_up_what_the_platform_needs(store: Path) -> None:
    async with staged(store, Counting(), rate=1.0) as stage:
        unsigned = [(await stage.raw("GET", "/extensions/a")).status for _ in range(20)]
        assert unsigned == [401, 401, *[429] * 18]
        assert (await stage.call("GET", "/extensions/a")).status == 404
        large = await stage.raw("POST", "/extensions", body=b"x" * 20_000)
        assert large.status == 429


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"store": "x.db"}, "pathlib.Path"),
        ({"signing_secrets": ["s1"]}, "bytes"),
        ({"signing_secrets": b"s1"}, "bytes"),
        ({"webhook_secret": "s2"}, "bytes"),
    ],
)
def test_settings_of_another_type_are_refused_when_they_are_made(
    store: Path, given: dict[str, Any], named: str
) -> None:
    settings = {"public_url": PUBLIC_URL, "store": store, "signing_secrets": [b"s1"], **given}
    with pytest.raises(ReconcilerError, match=named):
        ProviderSettings(**settings)


@pytest.mark.parametrize("address", ["https://[::1", "https://example.com:²", "https://example.com:99999"])
def test_what_is_not_an_address_is_refused(store: Path, address: str) -> None:
    with pytest.raises(ReconcilerError, match="is not the address of a provider"):
        ProviderSettings(address, store, [b"s1"])


def test_what_is_not_the_address_of_webhooks_is_refused(store: Path) -> None:
    settings = ProviderSettings(PUBLIC_URL, store, [b"s1"], webhook_url="https://[::1", webhook_secret=b"s2")
    with pytest.raises(ReconcilerError, match="the address of webhooks is not valid"):
        create_app(settings, Counting())


def test_a_provider_without_one_of_its_functions_is_refused(store: Path) -> None:
    settings = ProviderSettings(PUBLIC_URL, store, [b"s1"])
    with pytest.raises(ReconcilerError, match="no function `provision`"):
        create_app(settings, object())  # type: ignore[arg-type]  # that is the point


async def test_a_body_without_an_end_is_not_waited_for(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "BODY_S", 0.01)
    async with staged(store, Counting()) as stage:
        reply = await stage.raw("POST", "/extensions", receive=anyio.sleep_forever)
    assert reply.status == 401


async def test_nothing_secret_is_logged(store: Path) -> None:
    with capture_logs() as logs:
        functions = Counting()
        async with staged(store, functions) as stage:
            password = (await stage.provision("a")).json["config"]["PASSWORD"]
            functions.made["a"] = "another"
            await stage.provision("a")
            await _bad_calls(stage)
        written = json.dumps(logs)
        assert "request.refused" in written
        assert "resource.made" in written
        for secret in (password, SECRET, "another"):
            assert secret not in written.replace("signed for another address", "")


def test_settings_that_would_weaken_signatures_are_refused(store: Path) -> None:
    with pytest.raises(ReconcilerError, match=r"is the same as") as refused:
        ProviderSettings(
            PUBLIC_URL, store, [b"same"], webhook_url="https://platform.example.com/w", webhook_secret=b"same"
        )
    assert "must differ" in refused.value.help
    with pytest.raises(ReconcilerError, match="needs the secret"):
        ProviderSettings(PUBLIC_URL, store, [b""])

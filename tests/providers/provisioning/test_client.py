"""The provider's client: what is signed, what is retried, and what leaves it of an answer."""

import json
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
import structlog.testing

from reconciler.core.errors import (
    Lost,
    NoSuchService,
    NotFound,
    NotSent,
    PlatformError,
    Refused,
    SecretUnavailable,
    Unauthorized,
    UnreadableAnswer,
)
from reconciler.core.steps import PLATFORM, Call, Method, Read
from reconciler.core.wire import one
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.client import Client
from reconciler.services.machines.wire.extension import Extension, ExtensionCosts
from reconciler.services.outcome import Verdict
from reconciler.services.provider import provider_client
from reconciler.services.registry import Services
from reconciler.services.signing import Signed, verify
from reconciler.services.transport import Answer
from tests.services.script import Script, SimulatedClock, platform, reply

SECRET = "a-signing-secret"
VALUE = "postgres://canary-6d10"
PATH = "/extensions/res_1"


def client(
    *steps: Answer | Exception, secret: Any = lambda: Sensitive(SECRET), read_only: bool = False
) -> tuple[Client, Script]:
    clock = SimulatedClock()
    script = Script(clock, steps)
    nonces = count(1)
    made = provider_client(
        "acme",
        script,
        "https://acme.example/api/",
        secret,
        clock,
        new_nonce=lambda: f"nonce-{next(nonces)}",
        read_only=read_only,
        jitter=lambda: 1.0,
    )
    return made, script


def verified(script: Script) -> Iterator[dict[str, Any]]:
    for sent in script.sent:
        signed = Signed(sent.method, sent.url, [sent.headers["X-Signature"]], sent.body or b"")
        now = 1767225600 + sent.at_s
        yield dict(verify(signed, [SECRET.encode()], now=now, claim=lambda nonce: True))


async def test_each_attempt_is_signed_anew() -> None:
    asked, script = client(reply(status=503), Lost("reset"), reply('{"status": "ready"}'))
    await asked.read(Read(PATH, one(Extension)))
    fields = list(verified(script))
    assert [field["nonce"] for field in fields] == ["nonce-1", "nonce-2", "nonce-3"]
    assert [item["url"] for item in fields] == ["https://acme.example/api/extensions/res_1"] * 3
    assert all(earlier["timestamp"] <= later["timestamp"] for earlier, later in pairwise(fields))
    assert fields[-1]["timestamp"] > fields[0]["timestamp"]


async def test_reads_are_given_up_within_the_budget() -> None:
    asked, script = client(reply(status=503))
    with pytest.raises(PlatformError, match="answered 503 by provider acme"):
        await asked.read(Read(PATH, one(Extension)))
    assert script.clock.elapsed_s < 20


@pytest.mark.parametrize("failure", [Lost("reset"), reply(status=503), reply(status=429)], ids=repr)
async def test_a_mutation_is_sent_exactly_once(failure: Answer | Exception) -> None:
    asked, script = client(failure)
    await asked.send(Call("POST", "/extensions", {"name": "db"}), id_path="id")
    assert len(script.sent) == 1


async def test_a_body_is_signed_with_its_parameters() -> None:
    asked, script = client(reply('{"id": "res_1", "config": {}}'))
    await asked.send(Call("POST", "/extensions", {"name": "db"}), id_path="id")
    (fields,) = verified(script)
    assert fields == {
        "name": "db",
        "url": "https://acme.example/api/extensions",
        "nonce": "nonce-1",
        "timestamp": 1767225600,
    }
    assert script.sent[0].headers["content-type"] == "application/json"
    assert not {"authorization", "Authorization"} & script.sent[0].headers.keys()


async def test_values_of_config_leave_the_client_as_sensitive_only() -> None:
    body = {
        "id": 7,
        "name": "db-7",
        "platform_app_name": "acme\x1b[31m",
        "config": {"URL": VALUE, "PORT": 5432},
        "database_url": VALUE,
    }
    asked, _ = client(reply(json.dumps(body)))
    outcome = await asked.send(Call("POST", "/extensions", {}), id_path="id")
    assert (outcome.kind, outcome.id) == (Verdict.YES, "7")
    assert outcome.reply is not None
    assert outcome.reply.keys() == {"id", "name", "platform_app_name", "config"}
    assert outcome.reply["platform_app_name"] == "acme [31m"
    assert outcome.reply["config"]["URL"].reveal() == VALUE
    assert outcome.reply["config"]["PORT"] is None
    assert VALUE not in repr(outcome) + repr(outcome.reply)
    with pytest.raises(TypeError):
        json.dumps(outcome.reply)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("status", [400, 401, 409, 422, 500])
async def test_words_of_a_provider_about_a_provisioning_are_not_passed_on(
    method: Method, status: int
) -> None:
    asked, _ = client(reply(json.dumps({"error": VALUE, "config": {"URL": VALUE}}), status=status))
    outcome = await asked.send(Call(method, PATH, {}), id_path=None)
    assert outcome.message.startswith(f"{method} /extensions/res_1 was answered {status} by provider acme: ")
    assert outcome.reply is None
    assert VALUE not in repr(outcome)


async def test_a_deletion_brings_no_reply() -> None:
    asked, _ = client(reply(json.dumps({"id": "res_1", "config": {"URL": VALUE}})))
    outcome = await asked.send(Call("DELETE", PATH, None), id_path=None)
    assert (outcome.kind, outcome.reply) == (Verdict.YES, None)


@pytest.mark.parametrize("status", [404, 410])
async def test_one_that_is_gone_is_deleted(status: int) -> None:
    asked, _ = client(reply('{"error": "gone"}', status=status))
    outcome = await asked.send(Call("DELETE", PATH, None), id_path=None, accepts=("not_found", "gone"))
    assert outcome.kind is Verdict.YES


async def test_of_a_resource_only_known_fields_are_kept() -> None:
    body = {"id": "other", "status": "ready", "config": {"URL": VALUE}, "connection": VALUE}
    asked, _ = client(reply(json.dumps(body)))
    (found,) = (await asked.read(Read(PATH, one(Extension)))).objects
    assert (found.id, found.status) == ("res_1", "ready")
    assert VALUE not in repr(found) + repr(found.model_dump())


async def test_of_costs_secret_fields_are_hidden_and_amounts_are_not() -> None:
    asked, _ = client(reply(json.dumps({"total": {"value": 3}, "password": VALUE})))
    (found,) = (await asked.read(Read("/costs", one(ExtensionCosts)))).objects
    assert found.model_dump() == {"total": {"value": 3}, "password": "(sensitive)"}


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (reply('{"error": "no such"}', status=404), NotFound),
        (reply('{"error": "no"}', status=401), Unauthorized),
        (reply('{"error": "no"}', status=403), Unauthorized),
        (reply("<html>", status=200), UnreadableAnswer),
        (reply("[]", status=200), UnreadableAnswer),
        (reply("", status=204), UnreadableAnswer),
        (reply("", status=302, location="https://elsewhere.example"), UnreadableAnswer),
        (reply("<html>", status=404), PlatformError),
        (reply(json.dumps({"status": {"url": VALUE}})), UnreadableAnswer),
        (reply("teapot", status=418), PlatformError),
    ],
    ids=["404", "401", "403", "html", "list", "204", "redirect", "html-404", "odd-status", "418"],
)
async def test_reads_that_fail(answer: Answer, failure: type[PlatformError]) -> None:
    asked, _ = client(answer)
    with pytest.raises(failure) as raised:
        await asked.read(Read(PATH, one(Extension)))
    assert type(raised.value) is failure
    assert VALUE not in str(raised.value)


async def test_reading_only_refuses_everything_else_before_it_is_sent() -> None:
    asked, script = client(reply("{}"), read_only=True)
    for method in ("POST", "PATCH", "DELETE"):
        with pytest.raises(Refused):
            await asked.send(Call(method, PATH, None), id_path=None)
    assert script.sent == []


@pytest.mark.parametrize("path", ["/extensions/..", "/extensions/%2e%2e", "/extensions//", "extensions"])
async def test_a_path_that_may_lead_elsewhere_is_refused(path: str) -> None:
    asked, script = client(reply("{}"))
    with pytest.raises(Refused):
        await asked.read(Read(path, one(Extension)))
    with pytest.raises(Refused):
        await asked.send(Call("DELETE", path, None), id_path=None)
    assert script.sent == []


async def test_without_the_signing_secret_nothing_is_sent() -> None:
    def missing() -> Sensitive:
        raise SecretUnavailable("the environment variable `X` is not set")

    asked, script = client(reply("{}"), secret=missing)
    with pytest.raises(NoSuchService, match="signing secret of ExtensionProvider/acme"):
        await asked.read(Read(PATH, one(Extension)))
    with pytest.raises(SecretUnavailable):
        await asked.send(Call("POST", "/extensions", {}), id_path="id")
    with pytest.raises(SecretUnavailable):
        asked.check()
    assert script.sent == []


async def test_what_was_provably_not_sent_is_no() -> None:
    asked, _ = client(NotSent("cannot connect"))
    assert (await asked.send(Call("POST", "/extensions", {}), id_path="id")).kind is Verdict.NO


async def test_logs_tell_the_provider_and_no_signature() -> None:
    import logging

    asked, script = client(reply("{}"))
    logger = logging.getLogger("reconciler.http")
    logger.setLevel(logging.DEBUG)
    try:
        with structlog.testing.capture_logs() as logs:
            await asked.read(Read(PATH, one(Extension)))
    finally:
        logger.setLevel(logging.NOTSET)
    (event,) = logs
    assert (event["service"], event["path"]) == ("acme", PATH)
    assert script.sent[0].headers["X-Signature"] not in repr(logs)
    assert urlsplit(script.sent[0].url).query not in repr(logs)


async def test_calls_go_to_the_service_that_they_name() -> None:
    asked, _ = client(reply("{}"))
    other, _ = platform(reply("[]"))
    services = Services({PLATFORM: other, "acme": asked})
    assert services.of(PLATFORM) is other
    assert services.of("acme") is asked
    with pytest.raises(NoSuchService, match="no ExtensionProvider `acne`"):
        services.of("acne")


@pytest.mark.parametrize("status", [403, 404, 408, 409, 429, 500])
async def test_what_a_refused_get_says_is_not_repeated(status: int) -> None:
    """A manifest can name any address as a provider's, such as one that only this machine reaches."""
    asked, _ = client(reply('{"error": "iam-role-key"}', status, retry_after="1iam-role-key"))
    with pytest.raises(PlatformError) as refused:
        await asked.read(Read(PATH, one(Extension)))
    assert "iam-role-key" not in f"{refused.value.message} {refused.value.help}"
    assert "the answer's words are not shown: they do not come from the platform" in refused.value.message

"""One message, on simulated time: what is signed, what is sent again, and when it is given up."""

import base64

import anyio
import pytest

from reconciler.core.errors import Lost, NotSent, ReconcilerError
from reconciler.notify.delivery import Body, deliver, parse_key, parse_url
from reconciler.services.transport import Answer
from tests.notify.receiver import KEY, SECRET, Got
from tests.services.script import Script, SimulatedClock, reply

URL = "https://hooks.example.com/very-secret?key=very-secret"
BODY = Body("application/json", b'{"type":"reconcile.drift"}')


def sent_to(*answers: Answer | Exception, key: bytes | None = KEY, takes_s: float = 0.0) -> Script:
    clock = SimulatedClock()
    script = Script(clock, answers, takes_s)

    async def work() -> None:
        await deliver(script, URL, BODY, "msg_1", key, clock=clock, jitter=lambda: 1.0)

    anyio.run(work)
    return script


def refusal(*answers: Answer | Exception, takes_s: float = 0.0) -> tuple[str, Script]:
    clock = SimulatedClock()
    script = Script(clock, answers, takes_s)

    async def work() -> None:
        await deliver(script, URL, BODY, "msg_1", KEY, clock=clock, jitter=lambda: 1.0)

    with pytest.raises(ReconcilerError) as refused:
        anyio.run(work)
    told = f"{refused.value.message} {refused.value.__cause__}"
    assert "very-secret" not in told
    return refused.value.message, script


def test_each_attempt_has_the_same_id_and_a_signature_of_its_own_time() -> None:
    script = sent_to(reply(status=503), NotSent("cannot connect"), Lost("cut off"), reply(status=204))
    got = [Got("/", dict(each.headers), each.body or b"") for each in script.sent]
    assert [each.method for each in script.sent] == ["POST"] * 4
    assert {each.headers["webhook-id"] for each in got} == {"msg_1"}
    assert [int(each.headers["webhook-timestamp"]) - 1767225600 for each in got] == [0, 0, 1, 3]
    assert all(each.is_signed() for each in got)
    assert len({each.headers["webhook-signature"] for each in got}) == 3


def test_the_example_of_the_specification_has_its_signature() -> None:
    """Of Standard Webhooks' own libraries: this secret, id, time and body give this signature."""
    key = parse_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    clock = SimulatedClock(1614265330 - 1767225600)
    script = Script(clock, (reply(),))
    body = Body("application/json", b'{"test": 2432232314}')

    async def work() -> None:
        await deliver(
            script,
            URL,
            body,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            key,
            clock=clock,
            jitter=lambda: 1.0,
        )

    anyio.run(work)
    assert script.sent[0].headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_who_checks_no_signature_gets_none() -> None:
    (sent,) = sent_to(reply(), key=None).sent
    assert "webhook-signature" not in sent.headers


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 410])
def test_what_another_attempt_would_not_change_is_sent_once(status: int) -> None:
    told, script = refusal(reply(status=status, location="http://169.254.169.254/"))
    assert told.startswith(f"hooks.example.com:443 answered {status}")
    assert len(script.sent) == 1


@pytest.mark.parametrize("answer", [reply(status=500), reply(status=429), NotSent("no"), Lost("no")])
def test_it_is_given_up_after_twenty_seconds(answer: Answer | Exception) -> None:
    _, script = refusal(answer)
    assert len(script.sent) == 6
    assert script.clock.elapsed_s < 20
    _, slow = refusal(answer, takes_s=10)
    assert len(slow.sent) == 2


def test_a_receiver_that_asks_for_an_hour_is_not_waited_for() -> None:
    told, script = refusal(reply(status=429, retry_after="3600"))
    assert told == "hooks.example.com:443 answered 429"
    assert script.clock.elapsed_s == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/",
        "ftp://hooks.example.com/",
        "https:///path",
        "https://user:password@hooks.example.com/",
        "https://hooks.example.com/#part",
        "https://hooks.example.com/a b",
        "https://hooks.example.com/\x00",
        "https://hooks.example.com:0/",
        "https://[::1/",
        "http://127.0.0.1.example.com/",
        "file:///etc/passwd",
        "",
    ],
)
def test_an_address_that_nothing_may_be_sent_to(url: str) -> None:
    with pytest.raises(ReconcilerError, match="the address"):
        parse_url(url)


def test_addresses_and_secrets_as_people_have_them() -> None:
    for url in ("https://hooks.slack.com/services/T/B/x", "http://127.0.0.1:8080/", "http://[::1]:1/a?b=c"):
        assert parse_url(f"{url}\n") == url
    assert parse_key(f"{SECRET}\n") == KEY
    for length in (23, 65):
        with pytest.raises(ReconcilerError, match="24 to 64"):
            parse_key("whsec_" + base64.b64encode(bytes(length)).decode())
    with pytest.raises(ReconcilerError, match="whsec_"):
        parse_key(base64.b64encode(KEY).decode())

import json
from typing import Any

import pytest

from reconciler.core.model import SENSITIVE, Address
from reconciler.core.steps import OutputRef, SecretRef, Template
from reconciler.secrets.redaction import redact, redact_event
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.machines.wire.secret import SecretReply

VOLUME = Address("Volume", "data", "shop")


def test_a_secrets_reply_shows_all_but_its_value() -> None:
    reply = {"name": "PG_PASSWORD", "version": 3, "digest": "d1", "value": "hunter2"}
    assert redact(reply) == {**reply, "value": SENSITIVE}
    assert redact(SecretReply.model_validate(reply)) == {**reply, "value": SENSITIVE}


def test_the_names_of_a_providers_config_are_shown_and_its_values_are_not() -> None:
    reply = {"id": "ext_1", "config": {"URL": "redis://hunter2@host", "PORTS": [1, "2"], "OFF": None}}
    assert redact(reply) == {
        "id": "ext_1",
        "config": {"URL": SENSITIVE, "PORTS": [SENSITIVE, SENSITIVE], "OFF": None},
    }


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (SecretRef("env", "PW"), SENSITIVE),
        (Sensitive("hunter2"), SENSITIVE),
        ([{"body": {"text": Sensitive("hunter2")}}], [{"body": {"text": SENSITIVE}}]),
        ((1, "a", None, True, 1.5), [1, "a", None, True, 1.5]),
        (Template(("/v1/volumes/", OutputRef("s1", "id"))), "/v1/volumes/${s1:id}"),
        ({"value": OutputRef("s1", "id")}, {"value": SENSITIVE}),
        ({"Authorization": "Bearer hunter2"}, {"Authorization": SENSITIVE}),
        ({"value": {"deep": {"deeper": b"hunter2"}}}, {"value": {"deep": {"deeper": SENSITIVE}}}),
        (b"hunter2", "(7 bytes)"),
        ({"text": "the value is hunter2"}, {"text": "the value is hunter2"}),
        ({1: VOLUME}, {1: VOLUME}),
    ],
)
def test_redaction_goes_by_field_and_type(data: Any, shown: Any) -> None:
    assert redact(data) == shown


def test_redaction_leaves_its_input_alone() -> None:
    body = {"value": "hunter2", "list": [{"token": "hunter2"}]}
    before = json.dumps(body)
    redact(body)
    assert json.dumps(body) == before


def test_the_caller_may_name_other_fields() -> None:
    assert redact({"value": 1, "pin": 2}, frozenset({"pin"})) == {"value": 1, "pin": SENSITIVE}


def test_a_logged_event_is_redacted() -> None:
    event = {"event": "step.done", "token": "hunter2", "address": VOLUME, "reply": {"value": "hunter2"}}
    assert redact_event(None, "info", dict(event)) == {
        "event": "step.done",
        "token": SENSITIVE,
        "address": VOLUME,
        "reply": {"value": SENSITIVE},
    }

"""Machine events: verified, given to the handler once, their headers only a hint."""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.providers.kit import MachineEvent
from reconciler.services import signing
from tests.providers.kit.stage import SECRET, Counting, Stage, error_of, staged
from tests.providers.serve import Reply

HEADERS = {
    "ce-id": "1",
    "ce-source": "/machines",
    "ce-type": "io.platform.machine.stopped",
    "ce-specversion": "1.0",
    "ce-time": "2026-01-01T00:00:00Z",
}
BODY = {"machine_id": "m1", "status": "stopped", "data": {"Transition": "started:stopped"}}


async def _tell(stage: Stage, body: Any = BODY, **changes: str) -> Reply:
    raw = json.dumps(body).encode()
    headers = {**HEADERS, **{name.replace("_", "-"): value for name, value in changes.items()}}
    given = [(name, value) for name, value in headers.items() if value]
    given.append((signing.HEADER, signing.signature(SECRET.encode(), raw)))
    return await stage.raw("POST", "/extensions/events", given, raw)


async def test_an_event_is_handled_once_in_all_workers(store: Path) -> None:
    seen: list[MachineEvent] = []

    async def note(event: MachineEvent) -> None:
        seen.append(event)

    async with (
        staged(store, Counting(), on_event=note) as one,
        staged(store, Counting(), on_event=note) as other,
    ):
        replies = [await _tell(one), await _tell(other), await _tell(one)]
    assert [reply.status for reply in replies] == [202, 202, 202]
    assert seen == [
        MachineEvent("m1", "stopped", {"Transition": "started:stopped"}, "io.platform.machine.stopped", "1")
    ]


async def test_an_event_whose_handler_failed_comes_again(store: Path) -> None:
    seen: list[str] = []

    async def fail_once(event: MachineEvent) -> None:
        seen.append(event.id)
        if len(seen) == 1:
            raise RuntimeError("not now")

    async with staged(store, Counting(), on_event=fail_once) as stage:
        assert [(await _tell(stage)).status for _ in range(3)] == [500, 202, 202]
    assert seen == ["1", "1"]


async def test_a_played_back_body_cannot_use_up_the_id_of_another_event(store: Path) -> None:
    seen: list[str] = []

    async def note(event: MachineEvent) -> None:
        seen.append(event.machine_id)

    async with staged(store, Counting(), on_event=note) as stage:
        await _tell(stage, {"machine_id": "old"}, ce_id="2")
        await _tell(stage, {"machine_id": "new"}, ce_id="2")
    assert seen == ["old", "new"]


@pytest.mark.parametrize(
    ("body", "headers", "named"),
    [
        (BODY, {"ce_id": ""}, "`ce-id`"),
        (BODY, {"ce_source": ""}, "`ce-source`"),
        (BODY, {"ce_type": ""}, "`ce-type`"),
        (BODY, {"ce_specversion": "9.9"}, "CloudEvent"),
        (BODY, {"ce_time": "yesterday"}, "CloudEvent"),
        ({"status": "stopped"}, {}, "`machine_id`"),
        ({**BODY, "status": 1}, {}, "`status`"),
        ({**BODY, "data": []}, {}, "`data`"),
        ({**BODY, "data": "x"}, {}, "`data`"),
    ],
)
async def test_what_is_signed_and_no_event_is_refused(
    store: Path, body: Any, headers: dict[str, str], named: str
) -> None:
    async with staged(store, Counting()) as stage:
        reply = await _tell(stage, body, **headers)
    assert reply.status == 422, reply.body
    assert named in error_of(reply)


async def test_an_event_that_nobody_signed_is_refused(store: Path) -> None:
    async with staged(store, Counting()) as stage:
        raw = json.dumps(BODY).encode()
        assert (await stage.raw("POST", "/extensions/events", list(HEADERS.items()), raw)).status == 401

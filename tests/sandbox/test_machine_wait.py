"""Waits that last, over HTTP. Source: platform API, 4.4; platform notes, "Machines"."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from reconciler.sandbox.description import description
from reconciler.sandbox.server import application
from tests.sandbox.platform import BEARER, Platform
from tests.sandbox.test_http import END_S, served

M1 = "/v1/apps/shop/machines/m1"
MACHINE = {"app": "shop", "id": "m1"}
TURNS = 50  # of the event loop: many more than a request without a wait takes


@asynccontextmanager
async def front(platform: Platform) -> AsyncIterator[httpx.AsyncClient]:
    """The HTTP front in this event loop."""
    transport = httpx.ASGITransport(application(platform.sandbox))
    async with httpx.AsyncClient(transport=transport, base_url="http://sandbox", headers=BEARER) as client:
        yield client


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def begun(client: httpx.AsyncClient, query: str) -> "asyncio.Task[httpx.Response]":
    """A wait that the sandbox has received."""
    waiting = asyncio.create_task(client.get(f"{M1}/wait?{query}"))
    await turns()
    return waiting


async def advance(client: httpx.AsyncClient, seconds: float) -> None:
    (await client.post("/_sandbox/clock", json={"advance_s": seconds})).raise_for_status()
    await turns()


async def test_a_wait_lasts_until_another_request_moves_the_clock(platform: Platform) -> None:
    platform.machine()
    async with front(platform) as client:
        await client.post(f"{M1}/suspend")
        waiting = await begun(client, "state=suspended")
        await advance(client, 9)
        assert not waiting.done()
        await advance(client, 1)
        assert waiting.done()
        answer = await waiting
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "state": "suspended"})


async def test_a_wait_ends_with_408_when_its_time_has_passed(platform: Platform) -> None:
    platform.switch(suspending_s=1000)
    platform.machine()
    platform.ok("POST", f"{M1}/suspend")
    async with front(platform) as client:
        short, long = await begun(client, "state=suspended&timeout=5"), await begun(client, "state=suspended")
        await advance(client, 4.5)
        assert not short.done()
        await advance(client, 0.5)
        with anyio.fail_after(END_S):
            answer = await short
        assert not long.done()
        await advance(client, 55)
        with anyio.fail_after(END_S):
            assert (await long).status_code == 408
    assert answer.status_code == 408
    assert answer.json()["error"].endswith("desired state, suspended, currently suspending")


async def test_a_wait_for_several_states_ends_in_any_of_them(platform: Platform) -> None:
    platform.machine()
    platform.ok("POST", f"{M1}/suspend")
    async with front(platform) as client:
        waiting = await begun(client, "state=stopped&state=suspended")
        assert not waiting.done()
        await advance(client, 10)
        assert waiting.done()
        answer = await waiting
        assert (answer.status_code, answer.json()["state"]) == (200, "suspended")
        assert (await client.get(f"{M1}/wait?state=suspended&state=settled")).status_code == 422


async def test_a_wait_notices_what_another_request_does_at_once(platform: Platform) -> None:
    platform.machine(state="stopped")
    async with front(platform) as client:
        waiting = await begun(client, "state=started")
        await client.post("/_sandbox/machines", json={**MACHINE, "state": "started"})
        await turns()
        assert waiting.done()
        assert (await waiting).status_code == 200


async def test_a_wait_is_logged_once_when_it_is_answered(platform: Platform) -> None:
    platform.machine()
    platform.ok("POST", f"{M1}/suspend")
    async with front(platform) as client:
        waiting = await begun(client, "state=suspended")
        await advance(client, 4)
        await client.get(M1)
        await advance(client, 6)
        with anyio.fail_after(END_S):
            await waiting
    assert [(entry["path"].rpartition("/")[2], entry["status"], entry["at"]) for entry in platform.log()] == [
        ("suspend", 200, "2026-03-01T12:00:00.000Z"),
        ("m1", 200, "2026-03-01T12:00:04.000Z"),
        ("wait", 200, "2026-03-01T12:00:10.000Z"),
    ]


async def test_a_fault_spoils_the_end_of_a_wait_and_one_before_the_effect_its_beginning(
    platform: Platform,
) -> None:
    platform.machine()
    platform.ok("POST", f"{M1}/suspend")
    async with front(platform) as client:
        platform.fault(action="status", status=503, path="*/wait")
        with anyio.fail_after(END_S):
            assert (await client.get(f"{M1}/wait?state=suspended")).status_code == 503
        platform.fault(action="status", status=502, after=True, path="*/wait")
        waiting = await begun(client, "state=suspended")
        assert not waiting.done()
        await advance(client, 10)
        with anyio.fail_after(END_S):
            assert (await waiting).status_code == 502


async def test_a_wait_ends_when_its_client_has_left(platform: Platform) -> None:
    platform.machine()
    received = iter([{"type": "http.request", "body": b""}])

    async def receive() -> MutableMapping[str, Any]:
        return next(received, {"type": "http.disconnect"})

    async def send(message: MutableMapping[str, Any]) -> None:
        return None

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": f"{M1}/wait",
        "raw_path": f"{M1}/wait".encode(),
        "root_path": "",
        "query_string": b"state=suspended",
        "headers": [(name.encode(), value.encode()) for name, value in BEARER.items()],
    }
    with anyio.fail_after(END_S):
        await application(platform.sandbox)(scope, receive, send)
    assert [entry["status"] for entry in platform.log()] == [408]


@pytest.mark.parametrize(
    ("clock", "suspending_s", "status"), [("x600", 10, 200), ("x600", 1000, 408), ("real", 0, 200)]
)
def test_a_wait_follows_a_clock_that_runs_by_itself(clock: str, suspending_s: int, status: int) -> None:
    with served(clock=clock, machines=[MACHINE]) as (_, client):
        client.post("/_sandbox/switches", json={"suspending_s": suspending_s}).raise_for_status()
        client.post(f"{M1}/suspend").raise_for_status()
        assert client.get(f"{M1}/wait?state=suspended", timeout=END_S).status_code == status


def test_the_sandbox_ends_though_somebody_waits() -> None:
    head = [f"GET {M1}/wait?state=suspended HTTP/1.1", "host: sandbox", *map(": ".join, BEARER.items())]
    with served(machines=[MACHINE]) as (process, client):
        address = (client.base_url.host, client.base_url.port)
        with socket.create_connection(address) as waiting:
            waiting.sendall("\r\n".join([*head, "", ""]).encode())
            client.get(M1).raise_for_status()
            process.send_signal(signal.SIGTERM)
            with waiting.makefile("rb") as answer:
                assert answer.readline().startswith(b"HTTP/1.1 408 ")
            assert process.wait(END_S) == 0


@pytest.mark.parametrize(("profile", "extended"), [("documented", False), ("extended", True)])
def test_the_description_has_the_operations_of_the_profile(profile: str, extended: bool) -> None:
    with Platform(profile=profile) as platform:
        described = description(platform.sandbox)
    machines = "/v1/apps/{app_name}/machines"
    operations = {
        (method, path.removeprefix(machines))
        for path, item in described["paths"].items()
        if path.startswith(machines)
        for method in item
    }
    one = "/{machine_id}"
    documented = {("post", f"{one}/suspend"), ("get", f"{one}/wait"), ("post", f"{one}/start")}
    more = {("get", ""), ("get", one), ("post", f"{one}/stop"), ("post", f"{one}/restart")}
    more |= {(method, f"{one}/lease") for method in ("get", "post", "delete")}
    assert operations == (documented | more if extended else documented)
    assert {"MachineAccepted", "MachineStarted", "MachineWaited"} <= set(described["components"]["schemas"])
    waits = described["paths"][f"{machines}{one}/wait"]["get"]["responses"]
    assert set(waits) == {"200", "401", "404", "408", "422", "429"}


async def test_a_wait_counts_once_against_the_rate_limit_however_long_it_lasts(platform: Platform) -> None:
    platform.switch(rate_limit="on", suspending_s=1000)
    platform.machine()
    platform.ok("POST", f"{M1}/suspend")
    async with front(platform) as client:
        waiting = await begun(client, "state=suspended&timeout=5")
        for _ in range(5):
            await advance(client, 0.1)
        assert not waiting.done()
        others = [await begun(client, "state=suspended&timeout=1") for _ in range(3)]
        await advance(client, 60)
        statuses = [(await item).status_code for item in (waiting, *others)]
    assert statuses == [408, 408, 408, 429]

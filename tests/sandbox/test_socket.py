"""A machine suspends itself without a token, over a Unix socket. Source: platform API, 4.4 and 5.1."""

import errno
import socket
from pathlib import Path

import httpx
import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.sandbox import serve
from reconciler.sandbox.exchange import Request
from tests.sandbox.platform import BEARER, Platform
from tests.sandbox.test_http import served

SUSPEND = "/v1/apps/shop/machines/m1/suspend"
MACHINES = [{"app": "shop", "id": "m1"}]


def test_a_machine_suspends_itself_over_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "api"
    with served(machine_socket=str(path), machines=MACHINES) as (process, client):
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://flaps") as inside:
            refused = inside.get("/v1/apps/shop/volumes")
            suspended = inside.post(SUSPEND)
        assert (refused.status_code, suspended.status_code) == (401, 200)
        assert suspended.json() == {"ok": True}
        assert client.get("/v1/apps/shop/machines/m1").json()["state"] == "suspending"
        process.terminate()
        process.wait(10)
    assert not path.exists()


@pytest.mark.parametrize(
    ("method", "path", "headers", "local", "status"),
    [
        ("POST", SUSPEND, {"host": "flaps"}, True, 200),
        ("POST", SUSPEND, {"host": "flaps:80"}, True, 200),
        ("POST", SUSPEND, {"host": "flaps"}, False, 401),
        ("POST", SUSPEND, {"host": "elsewhere"}, True, 401),
        ("POST", SUSPEND, {}, True, 401),
        ("POST", SUSPEND, {"host": "elsewhere", **BEARER}, True, 200),
        ("POST", SUSPEND.replace("suspend", "start"), {"host": "flaps"}, True, 401),
        ("POST", SUSPEND.replace("suspend", "stop"), {"host": "flaps"}, True, 401),
        ("POST", SUSPEND.replace("m1", "m2"), {"host": "flaps"}, True, 404),
        ("GET", "/v1/apps/shop/volumes", {"host": "flaps", **BEARER}, True, 200),
    ],
)
def test_only_that_request_needs_no_token(
    method: str, path: str, headers: dict[str, str], local: bool, status: int
) -> None:
    with Platform(machines=MACHINES) as platform:
        answer = platform.sandbox.handle(Request(method, path, headers=headers, local=local))
    assert answer.status == status


def test_the_rules_of_a_suspend_hold_over_the_socket() -> None:
    with Platform(machines=[{"app": "shop", "id": "m1", "memory_mb": 4096}]) as platform:
        answer = platform.sandbox.handle(Request("POST", SUSPEND, headers={"host": "flaps"}, local=True))
    assert answer.status == 412


def test_what_a_killed_process_left_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "api"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with served(machine_socket=str(path)) as (_, client):
        assert client.get("/_sandbox/clock").status_code == 200
        with pytest.raises(ReconcilerError, match=f"cannot listen at {path}"):
            serve(machine_socket=path, ready=pytest.fail)
        with socket.socket(socket.AF_UNIX) as probe:
            assert probe.connect_ex(str(path)) != errno.ECONNREFUSED


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "api"
    path.write_text("mine")
    with pytest.raises(ReconcilerError, match="cannot listen at"):
        serve(machine_socket=path, ready=pytest.fail)
    assert path.read_text() == "mine"

"""The HTTP front and the process around it, over real sockets."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.sandbox import running_at, serve
from tests.sandbox.platform import BEARER

VOLUMES = "/v1/apps/shop/volumes"
END_S = 10


@contextmanager
def served(**options: Any) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    options = {"apps": [{"name": "shop"}], "clock": "manual", "profile": "extended", **options}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.sandbox.child", json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process, process.stdin, process.stdout:
        url = process.stdout.readline().strip()
        with httpx.Client(base_url=url, headers=BEARER, trust_env=False) as client:
            yield process, client


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with served() as (_, client):
        yield client


def test_the_http_front_answers_as_the_one_in_process(client: httpx.Client) -> None:
    created = client.post(VOLUMES, content=b'{"name": "data"}')
    assert (created.status_code, created.json()["size_gb"]) == (200, 3)
    assert created.headers["content-type"] == "application/json"
    assert created.headers["x-request-id"]
    assert "server" not in created.headers
    assert client.head(VOLUMES).content == b""
    assert client.options(VOLUMES).headers["allow"] == "GET, HEAD, POST"
    assert client.get("/v1/nothing").json() == {"error": "this path does not exist"}
    assert client.get(f"{VOLUMES}/").status_code == 404


def test_the_date_is_the_sandboxs_alone(client: httpx.Client) -> None:
    client.post("/_sandbox/clock", json={"advance_s": 366 * 24 * 3600}).raise_for_status()
    now = client.get("/_sandbox/clock")
    assert now.headers.get_list("date") == [now.headers["date"]]
    assert now.json()["now"][:4] in now.headers["date"]


def test_without_the_token_nothing_is_shown(client: httpx.Client) -> None:
    refused = client.get(VOLUMES, headers={"authorization": "Bearer wrong"})
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    del client.headers["authorization"]
    missing, control = client.get(VOLUMES), client.get("/_sandbox/log")
    client.headers.update(BEARER)
    assert (missing.status_code, control.status_code) == (401, 200)


def test_a_malformed_body_is_refused_in_the_platforms_shape(client: httpx.Client) -> None:
    refused = client.post("/v1/postgres", content=b"{")
    assert (refused.status_code, refused.json()) == (400, {"error": "the request body is not valid JSON"})


@pytest.mark.parametrize(("action", "landed"), [("drop_before", 0), ("drop_after", 1)])
def test_a_dropped_connection_gives_no_answer(client: httpx.Client, action: str, landed: int) -> None:
    fault = {"method": "POST", "path": VOLUMES, "action": action}
    client.post("/_sandbox/faults", json=[fault]).raise_for_status()
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        client.post(VOLUMES, json={"name": action})
    assert [volume["name"] for volume in client.get(VOLUMES).json()].count(action) == landed


def test_a_request_that_its_client_does_not_finish_changes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with served() as (_, client):
        begun = f"POST {VOLUMES} HTTP/1.1\r\nhost: sandbox\r\nauthorization: {BEARER['authorization']}\r\n"
        with socket.create_connection((client.base_url.host, client.base_url.port)) as line:
            line.sendall(f'{begun}content-length: 17\r\n\r\n{{"name": '.encode())
        assert client.get(VOLUMES).json() == []
    assert capfd.readouterr().err == ""


def test_a_truncated_answer_breaks_off_in_the_body(client: httpx.Client) -> None:
    client.post("/_sandbox/faults", json=[{"method": "POST", "action": "truncate"}]).raise_for_status()
    with client.stream("POST", VOLUMES, json={"name": "cut"}) as cut:
        assert cut.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            cut.read()
    assert "cut" in [volume["name"] for volume in client.get(VOLUMES).json()]


@pytest.mark.parametrize("before", [False, True])
def test_a_delayed_answer_still_comes(client: httpx.Client, before: bool) -> None:
    fault = {"method": "PUT", "action": "delay", "delay_s": 0.01, "before": before}
    client.post("/_sandbox/faults", json=[fault]).raise_for_status()
    assert client.put(f"{VOLUMES}/vol_none", json={}).status_code == 404


def test_a_dripping_answer_comes_whole_in_pieces(client: httpx.Client) -> None:
    fault = {"method": "GET", "action": "drip", "delay_s": 0.0001}
    client.post("/_sandbox/faults", json=[fault]).raise_for_status()
    with client.stream("GET", "/v1/nothing") as answer:
        pieces = list(answer.iter_raw())
    assert len(pieces) > 10
    assert json.loads(b"".join(pieces)) == {"error": "this path does not exist"}


def test_an_oversized_answer_is_sent_whole(client: httpx.Client) -> None:
    fault = {"method": "GET", "action": "oversize", "size_bytes": 3 << 20}
    client.post("/_sandbox/faults", json=[fault]).raise_for_status()
    answer = client.get("/v1/nothing")
    assert (len(answer.content), answer.json()) == (3 << 20, {"error": "this path does not exist"})


def test_the_description_names_every_route_and_its_models(client: httpx.Client) -> None:
    description = client.get("/openapi.json").json()
    assert description["openapi"].startswith("3.1.")
    assert description["info"]["version"] == "1.0"
    assert description["servers"] == [{"url": "/"}]
    operations = [item for path in description["paths"].values() for item in path.values()]
    assert all(any(status.startswith("2") for status in operation["responses"]) for operation in operations)
    assert set(description["paths"]["/v1/apps/{app_name}/volumes"]) == {"get", "post"}
    schemas = description["components"]["schemas"]
    references: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            references.update({node["$ref"].rpartition("/")[2]} if "$ref" in node else ())
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(description)
    assert {"VolumeCreate", "Compute", "ClusterReply", "SecretSet", "Error"} <= references <= set(schemas)


def test_creates_are_linked_to_what_can_be_done_with_the_new_object(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    operations = {found["operationId"]: found for item in paths.values() for found in item.values()}
    links = operations["volume_create"]["responses"]["200"]["links"]
    read = {"volume_id": "$response.body#/id", "app_name": "$request.path.app_name"}
    assert links["volume_get"] == {"operationId": "volume_get", "parameters": read}
    of_one_volume = {name for name, operation in operations.items() if "volume_id" in _names(operation)}
    assert set(links) == of_one_volume | {"volume_create"}
    assert links["volume_create"]["requestBody"] == {"name": "data", "source_volume_id": "$response.body#/id"}
    linked = {
        name
        for one in operations.values()
        for answer in one["responses"].values()
        for name in answer.get("links", ())
    }
    # A webhook is signed, which no link can say.
    in_need = {name for name, thing in operations.items() if _names(thing) and thing["security"]}
    assert in_need <= linked


def _names(operation: dict[str, Any]) -> set[str]:
    return {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}


def test_parameters_have_examples_that_lead_somewhere(client: httpx.Client) -> None:
    client.post("/v1/apps/shop/secrets/A", json={"value": "x"}).raise_for_status()
    id = client.post(VOLUMES, json={"name": "shown"}).json()["id"]
    path = "/v1/apps/{app_name}/volumes/{volume_id}"
    described = client.get("/openapi.json").json()["paths"][path]["get"]["parameters"]
    examples = {item["name"]: item["example"] for item in described}
    assert client.get(path.format(**examples)).status_code == 200
    assert examples["app_name"] == "shop"
    assert id in [volume["id"] for volume in client.get(VOLUMES).json()]


def test_a_second_process_finds_the_url_of_the_first(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    assert running_at(db) is None
    with served(db=str(db)) as (_, client):
        url = str(client.base_url).rstrip("/")
        running = running_at(db)
        assert running is not None
        assert running == (url, running.pid)
        with pytest.raises(ReconcilerError, match=f"another sandbox serves .* at {url}"):
            serve(db=db, ready=pytest.fail)


def test_a_port_in_use_is_named(client: httpx.Client) -> None:
    with pytest.raises(ReconcilerError, match="cannot listen on"):
        serve(port=client.base_url.port or 0, ready=pytest.fail)


ENDINGS: dict[str, Callable[[subprocess.Popen[str]], object]] = {
    "SIGTERM": lambda process: process.send_signal(signal.SIGTERM),
    "SIGINT": lambda process: process.send_signal(signal.SIGINT),
    "end of stdin": lambda process: process.stdin and process.stdin.close(),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_it_ends_cleanly_and_frees_the_lock(tmp_path: Path, ending: str) -> None:
    db = tmp_path / "world.db"
    with ExitStack() as stack:
        process, client = stack.enter_context(served(db=str(db)))
        client.get(VOLUMES).raise_for_status()
        ENDINGS[ending](process)
        assert process.wait(END_S) == 0
    assert running_at(db) is None


def test_a_lock_that_cannot_be_opened_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "world.db.lock").mkdir()
    with pytest.raises(ReconcilerError, match=r"cannot open .*world\.db\.lock: Is a directory"):
        serve(db=tmp_path / "world.db", ready=pytest.fail)


FOREIGN = {
    "another host": {"host": "evil.example"},
    "a name that ends like ours": {"host": "localhost.evil.example"},
    "another host in the origin": {"origin": "https://evil.example"},
    "no origin to name": {"origin": "null"},
    "another port in the origin": {"origin": "http://127.0.0.1:1"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/_sandbox/world"), ("POST", "/_sandbox/clock"), ("GET", "/")]
)
def test_a_web_page_of_others_neither_reads_nor_changes_the_world(
    client: httpx.Client, method: str, path: str, headers: dict[str, str]
) -> None:
    assert client.request(method, path, headers=headers).status_code == 403


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]"])
def test_the_control_verbs_know_loopback_by_its_names(client: httpx.Client, name: str) -> None:
    host = f"{name}:{client.base_url.port}"
    headers = {"host": host, "origin": f"http://{host}"}
    assert client.get("/_sandbox/world", headers=headers).status_code == 200


def test_the_control_verbs_refuse_a_body_that_is_not_declared_as_json(
    client: httpx.Client,
) -> None:
    for media_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client.post(
            "/_sandbox/apps", content=b'{"name": "pwned"}', headers={"content-type": media_type}
        )
        assert answer.status_code == 415, media_type
    assert "pwned" not in client.get("/_sandbox/world").text


def test_a_head_without_end_is_refused(client: httpx.Client) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=END_S) as line:
        line.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(ConnectionError):
            line.sendall((b"x: " + b"y" * 5_000 + b"\r\n") * 10_000)

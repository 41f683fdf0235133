"""A small provider of the tests' own, which does all that is demanded; each defect breaks one thing.

It shares no code with the kit that `reconcile provider serve` is built with, nor with `services.signing`:
what the check finds in it says something about the check.
"""

import asyncio
import hashlib
import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

import uvicorn

SIGNING = b"signing secret of the tests"
WEBHOOK = b"webhook secret of the tests"
MOST = 1024 * 1024
BODY_S = 1.0
USER = "user-1"
ORGANIZATION = "check-organization"

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Stop(Exception):
    def __init__(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


@dataclass
class Reference:
    """An ASGI application. `url`: its own address, known once it listens. `polls`: until it is ready.

    `words`: those of every refusal. `busy`: `retry-after` of its first answers, which are 429.
    """

    defect: str = ""
    polls: int = 2
    url: str = ""
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    nonces: list[str] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    users: dict[str, list[str]] = field(default_factory=lambda: {USER: [ORGANIZATION]})
    codes: dict[str, str] = field(default_factory=dict)
    makes_users: bool = True
    verified: int = 0  # calls
    words: str = "unauthorized"
    busy: list[str] = field(default_factory=list)
    provisioned: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            raise NotImplementedError  # says that there is none
        headers = [(name.decode().lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        try:
            raise await self._answer(scope, receive, headers)
        except Stop as stop:
            body = json.dumps(stop.body).encode("utf-16" if self.defect == "answers in UTF-16" else "utf-8")
            given = {"content-type": "application/json", "content-length": str(len(body)), **stop.headers}
            status = stop.status
        except Exception:
            body, status = b"failed", 500
            given = {"content-type": "text/plain", "content-length": str(len(body))}
        raw = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: dict[str, Any], receive: Receive, headers: list[tuple[str, str]]) -> Stop:
        if self.busy:
            return Stop(429, {}, {"retry-after": self.busy.pop(0)})
        method, path = scope["method"], scope["raw_path"].decode()
        query = scope["query_string"].decode()
        if path.startswith("/auth/"):
            return self._platform(method, path, parse_qs(query), await self._body(receive))
        if path == "/callback":
            return self._callback(parse_qs(query), dict(headers).get("cookie", ""))
        if path == "/page":
            signed_in = "session=1" in dict(headers).get("cookie", "")
            signed_in |= self.defect == "shows its page to anybody"
            return Stop(200 if signed_in else 403, {})
        if path.endswith("/sso"):
            return self._sso(path, dict(headers).get("cookie", ""))
        body = await self._body(receive)
        if path == "/extensions/events" and self.defect == "demands a nonce of events":
            self._verified(method, path, query, headers, body)
        if path == "/extensions/events":
            if self.defect != "takes events without a signature":
                self._check_signature(headers, body)
            return Stop(202, {})
        unsigned = self.defect == "deletes without a signature" and method == "DELETE"
        if self.defect == "acts before it verifies" and method == "POST":
            self._provision(json.loads(body))
        fields = {} if unsigned else self._verified(method, path, query, headers, body)
        self.verified += 1
        if self.defect == "is busy" and self.verified % 3 == 1:
            return Stop(429, {}, {"retry-after": "1"})
        await asyncio.sleep(0)
        if path == "/costs":
            return Stop(200, {"costs": []})
        if path == "/extensions" and method == "POST":
            return await self._post(fields)
        return self._one(method, unquote(path.removeprefix("/extensions/")), fields)

    async def _body(self, receive: Receive) -> bytes:
        body: bytes = b""
        try:
            async with asyncio.timeout(None if self.defect == "waits for a body for ever" else BODY_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise self._refusal("cut short")
                    body += message.get("body", b"")
                    if len(body) > MOST and self.defect != "takes a body of any size":
                        raise self._refusal("too large")
                    if not message.get("more_body"):
                        return body
        except TimeoutError:
            raise self._refusal("too slow") from None

    def _refusal(self, why: str) -> Stop:
        words = why if self.defect == "tells why it refuses" else self.words
        return Stop(401, {"error": words}, {"connection": "close"})

    def _check_signature(self, headers: list[tuple[str, str]], message: bytes) -> None:
        given = [value for name, value in headers if name == "x-signature"]
        if self.defect == "takes the first of two headers":
            given = given[:1]
        if self.defect == "takes the last of several signatures":
            given = [given[-1].split(",")[-1].strip()] if given else []
        if len(given) != 1:
            raise self._refusal("no signature")
        keys = [SIGNING]
        if self.defect == "takes the webhook secret":
            keys.append(WEBHOOK)
        if self.defect == "takes an empty secret":
            keys.append(b"")
        texts = [message]
        if self.defect == "verifies after parsing":
            with suppress(ValueError):
                texts.append(json.dumps(json.loads(message), separators=(",", ":")).encode())
        if self.defect == "signs its prefix only":
            given = [given[0][:16]]
            right = {hmac.new(key, text, hashlib.sha256).hexdigest()[:16] for key in keys for text in texts}
        else:
            right = {hmac.new(key, text, hashlib.sha256).hexdigest() for key in keys for text in texts}
        if given[0] not in right:
            raise self._refusal("wrong signature")

    def _verified(
        self, method: str, path: str, query: str, headers: list[tuple[str, str]], body: bytes
    ) -> dict[str, Any]:
        in_body = method in ("POST", "PATCH")
        if self.defect == "uses up the nonces of forgeries" and not in_body:
            self._use(parse_qs(query).get("nonce", [""])[0])
            self.nonces.append("")
        self._check_signature(headers, body if in_body else query.encode())
        fields: dict[str, Any] = {}
        try:
            if in_body:
                fields = json.loads(body)
            else:
                fields = {name: values[0] for name, values in parse_qs(query).items()}
                fields["timestamp"] = int(fields.get("timestamp", ""))
        except RecursionError:
            if self.defect == "fails at deep JSON":
                raise
            raise self._refusal("too deep") from None
        except ValueError:
            raise self._refusal("not readable") from None
        if not isinstance(fields, dict):
            raise self._refusal("no object")
        self._check_url(fields.get("url"), path)
        self._check_time(fields.get("timestamp"))
        nonce = fields.get("nonce")
        if not isinstance(nonce, str) or not nonce:
            raise self._refusal("no nonce")
        if self.defect != "uses up the nonces of forgeries" or in_body:
            self._use(nonce)
        return fields

    def _check_url(self, given: object, path: str) -> None:
        right = given == f"{self.url}{path}"
        if self.defect == "compares the path alone":
            right = str(given).endswith(path)
        if not right and self.defect != "does not compare the url":
            raise self._refusal("another url")

    def _check_time(self, given: object) -> None:
        right = type(given) is int and time.time() - 300 <= given <= time.time() + 300
        if not right and self.defect != "does not look at the time":
            raise self._refusal("another time")

    def _use(self, nonce: str) -> None:
        if nonce in self.nonces and self.defect != "does not store nonces":
            raise self._refusal("a used nonce")
        self.nonces.append(nonce)
        if self.defect == "remembers the last two nonces":
            del self.nonces[:-2]

    async def _post(self, fields: dict[str, Any]) -> Stop:
        if not all(
            isinstance(fields.get(name), str) for name in ("id", "name", "organization_id", "user_role")
        ):
            return Stop(422, {"error": "a parameter is missing"})
        if self.defect == "makes two when asked at once":
            known = fields["id"] in self.resources
            await asyncio.sleep(0.05)
            if not known:
                self.resources.pop(fields["id"], None)
        made = self._provision(fields)
        config: dict[str, Any] = {"DATABASE_URL": made["secret"]}
        if self.defect == "makes a new password each time":
            config["DATABASE_URL"] = secrets.token_hex(8)
        if self.defect == "gives a number in config":
            config["DATABASE_PORT"] = 5432
        if self.defect == "gives a key with a dash":
            config["DATABASE-NAME"] = "main"
        if self.defect == "gives an array for its id":
            return Stop(201, {"id": [made["id"]], "config": config})
        return Stop(201, {"id": made["id"], "config": config})

    def _provision(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        own = f"own-{secrets.token_hex(4)}" if self.defect == "makes two when asked at once" else fields["id"]
        if self.defect == "knows only the id that it was sent":
            own = f"own-{fields['id']}"
        if self.defect == "has one resource for all orders":
            own = "own-1"
            if self.resources:
                return next(iter(self.resources.values()))
        if self.defect == "gives an id that no path can hold":
            own = f"own {fields['id']}"
        made = {
            "id": own,
            "name": fields["name"],
            "read_regions": fields.get("read_regions"),
            "secret": secrets.token_hex(8),
            "polls": 0,
        }
        if self.defect == "refuses a PATCH, and repeats a key of several lines":
            made["secret"] = f"{secrets.token_hex(8)}\n{secrets.token_hex(8)}"
        known = self.resources.setdefault(fields["id"], made)
        self.provisioned.set()
        return known

    def _one(self, method: str, id: str, fields: dict[str, Any]) -> Stop:
        key = next((name for name, resource in self.resources.items() if resource["id"] == id), id)
        if self.defect == "knows only the id that it was sent":
            key = id
        if key not in self.resources:
            if self.defect == "fails at unknown ids":
                raise KeyError(id)
            return Stop(404, {"error": "there is no such resource"})
        found = self.resources[key]
        if method == "DELETE" and self.defect == "answers DELETE with an error":
            return Stop(500, {})
        if method == "DELETE":
            if self.defect != "answers DELETE and keeps it":
                del self.resources[key]
            return Stop(200, {})
        if method == "PATCH" and self.defect.startswith("refuses a PATCH"):
            room = " " * 380 if self.defect.endswith("far to the right") else ""
            return Stop(400, {"error": f"{room}{found['secret']} is in use"})
        if method == "PATCH" and self.defect != "ignores PATCH":
            found["read_regions"] = fields.get("read_regions")
            if self.defect != "ignores another name":
                found["name"] = fields.get("name")
            if self.defect == "refuses another name, and takes it" and found["name"] != id:
                return Stop(422, {"error": "`name` cannot be changed"})
        found["polls"] += 1
        ready = found["polls"] > self.polls and self.defect != "is never ready"
        status = "error" if self.defect == "ends in error" else "ready" if ready else "provisioning"
        if self.defect == "repeats a value in its status":
            status = f"waits for {found['secret']}"
        shown = {"id": found["id"], "name": found["name"], "read_regions": found["read_regions"]}
        if self.defect == "shows no status":
            return Stop(200, shown)
        if self.defect == "shows an object for its status":
            return Stop(200, {**shown, "status": {"word": status}})
        return Stop(200, {**shown, "status": status})

    def _sso(self, path: str, cookie: str) -> Stop:
        if "session=1" in cookie:
            return Stop(302, {}, {"location": "/page"})
        state = secrets.token_urlsafe(16)
        if self.defect == "signs in with a fixed state":
            state = "a-state-that-never-changes"
        browser = secrets.token_hex(8)
        self.states[state] = browser
        parameters = {
            "client_id": "client",
            "response_type": "code",
            "redirect_uri": f"{self.url}/callback",
            "scope": "read",
            "state": state,
            "code_challenge": "c" * 43,
            "code_challenge_method": "S256",
        }
        if self.defect == "signs in without a state":
            del parameters["state"]
        if self.defect == "signs in without PKCE":
            del parameters["code_challenge"]
        location = f"{self.url}/auth/oauth/authorize?{urlencode(parameters)}"
        if self.defect == "redirects to no address":
            location = "http://[::1"
        return Stop(302, {}, {"location": location, "set-cookie": f"browser={browser}; Path=/; HttpOnly"})

    def _platform(self, method: str, path: str, given: Mapping[str, list[str]], body: bytes) -> Stop:
        """The platform's part, at the same address: a page that lets one choose who signs in."""
        if path == "/auth/_sandbox/users" and self.makes_users:
            user = json.loads(body)
            self.users[user["id"]] = [organization["id"] for organization in user["organizations"]]
            return Stop(200, user)
        if path != "/auth/oauth/authorize":
            return Stop(404, {})
        if method == "GET":
            return Stop(200, {})
        code = secrets.token_hex(8)
        self.codes[code] = parse_qs(body.decode())["user"][0]
        back = {"code": code} | ({"state": given["state"][0]} if "state" in given else {})
        return Stop(302, {}, {"location": f"{given['redirect_uri'][0]}?{urlencode(back)}"})

    def _callback(self, given: Mapping[str, list[str]], cookie: str) -> Stop:
        state = given.get("state", [""])[0]
        browser = self.states.get(state)
        lenient = self.defect in ("signs in without a state", "takes any way back")
        if not lenient:
            if browser is None or f"browser={browser}" not in cookie:
                return Stop(400, {})
            if self.defect != "takes the same way back twice":
                del self.states[state]
        page = "http://example.com/page" if self.defect == "leads on without encryption" else "/page"
        signed_in = {"location": page, "set-cookie": "session=1; Path=/; HttpOnly"}
        user = self.codes[given["code"][0]]
        if ORGANIZATION not in self.users[user] and self.defect != "lets in any organization":
            # One that refuses, and leaves a session behind all the same.
            return Stop(403, {}, signed_in if self.defect == "keeps the session of a stranger" else {})
        return Stop(302, {}, signed_in)


@contextmanager
def serving(app: Reference) -> Iterator[Reference]:
    def at(url: str) -> Reference:
        app.url = url
        return app

    with listening(at):
        yield app


@contextmanager
def listening(make: Callable[[str], Any]) -> Iterator[str]:
    """Serve the ASGI application that `make` gives for its URL, on a free port, in a thread of its own."""
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:  # of this protocol asyncio delays nothing
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(make(url), log_level="critical"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield url
        finally:
            server.should_exit = True
            server.force_exit = True
            thread.join()

"""A sender, a receiver and their secrets, drawn at random; and the table of cases that play in it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from urllib.parse import quote, quote_plus

from tests.providers.vectors.vector import Delivery, Encoding, How, Vector, Verdict, mac

HOSTS = (
    "https://ext.example.com",
    "https://db.provider.example:8443",
    "https://xn--bcher-kva.example",
    "http://127.0.0.1:8080",
    "http://[::1]:9000",
)
PREFIXES = ("", "/v1", "/platform/api", "/a%2Fb", "/~team")
WORDS = ("main", "Zoë", "naïve café", "数据库", "a&b=c", '"quoted" \\ back', "🗄️ store", "x" * 300)
ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Scene:
    """`base`: the receiver's address before its paths. `now`: UNIX seconds, of both."""

    random: Random
    secret: bytes
    old_secret: bytes
    webhook_secret: bytes
    encoding: Encoding
    base: str
    now: int

    def url(self, path: str = "/extensions") -> str:
        return self.base + path

    def resource(self) -> str:
        return self.url(f"/extensions/{self.word()}")

    def word(self, length: int = 12) -> str:
        return "".join(self.random.choices(ID_LETTERS, k=length))

    def nonce(self) -> str:
        return self.word(self.random.choice((8, 16, 32, 64)))

    def fields(self, url: str, /, **changes: Any) -> dict[str, Any]:
        """A provisioning body per 2.7, in any order of keys; a change to `...` leaves a field out."""
        fields: dict[str, Any] = {
            "name": self.random.choice(WORDS),
            "id": self.word(),
            "organization_id": self.word(),
            "organization_name": self.random.choice(WORDS),
            "user_id": self.word(),
            "user_email": f"{self.word()}@alias.example",
            "user_role": self.random.choice(("admin", "member")),
            "url": url,
            "nonce": self.nonce(),
            "timestamp": self.now,
        }
        if self.random.random() < 0.4:
            fields["read_regions"] = ["ams", "fra"]
        fields |= changes
        names = [name for name in fields if fields[name] is not ...]
        self.random.shuffle(names)
        return {name: fields[name] for name in names}

    def text(self, fields: Any) -> bytes:
        """JSON as one of many writers would lay it out."""
        separators = self.random.choice(((",", ":"), (", ", ": "), (" ,\n", " : ")))
        ascii_only = self.random.random() < 0.5
        return json.dumps(fields, separators=separators, ensure_ascii=ascii_only).encode()

    def with_body(self, body: bytes, url: str, method: str = "POST", secret: bytes | None = None) -> Delivery:
        return Delivery(
            method, url, (mac(secret or self.secret, body, self.encoding),), body, float(self.now)
        )

    def post(self, method: str = "POST", to: str = "", /, **changes: Any) -> Delivery:
        """A request as the document wants it; `changes` to its signed fields."""
        to = to or (self.url() if method == "POST" else self.resource())
        return self.with_body(self.text(self.fields(to, **changes)), to, method)

    def query(self, url: str, /, **changes: Any) -> str:
        """The signing parameters, in any order, escaped as one of several writers would."""
        escape = self.random.choice(
            (quote_plus, lambda text: quote(text, safe=""), lambda text: quote(text, safe=":/"))
        )
        parameters: dict[str, Any] = {"url": url, "nonce": self.nonce(), "timestamp": self.now} | changes
        parts = [f"{name}={escape(str(value))}" for name, value in parameters.items() if value is not ...]
        self.random.shuffle(parts)
        return "&".join(parts)

    def with_query(self, query: str, url: str, method: str = "GET", secret: bytes | None = None) -> Delivery:
        """`url`: without the query."""
        signature = mac(secret or self.secret, query.encode("utf-8", "surrogateescape"), self.encoding)
        return Delivery(method, f"{url}?{query}", (signature,), b"", float(self.now))

    def get(self, method: str = "GET", to: str = "", /, **changes: Any) -> Delivery:
        to = to or self.resource()
        return self.with_query(self.query(to, **changes), to, method)

    def any(self) -> Delivery:
        """A request of any of the four methods."""
        method = self.random.choice(("POST", "PATCH", "GET", "DELETE"))
        return self.post(method) if method in ("POST", "PATCH") else self.get(method)

    def webhook(self, /, **changes: Any) -> Delivery:
        action = self.random.choice(("resource.created", "resource.updated", "resource.deleted"))
        resource = {"id": self.word(), "status": "ready", "plan": "dev", "name": self.random.choice(WORDS)}
        fields: dict[str, Any] = {
            "timestamp": str(self.now),
            "action": action,
            "resource": resource,
        } | changes
        return self.webhook_of(self.text({name: fields[name] for name in fields if fields[name] is not ...}))

    def webhook_of(self, body: bytes, secret: bytes | None = None) -> Delivery:
        signature = mac(secret or self.webhook_secret, body, self.encoding)
        url = "https://platform.example/hooks/provider"
        return Delivery("POST", url, (signature,), body, float(self.now), "webhook")


Play = Callable[[Scene], Vector]
Sent = Callable[[Scene], Delivery | tuple[Delivery, ...]]
CASES: dict[str, Play] = {}
COSTLY: set[str] = set()  # a megabyte each: made in the first rounds only


def case(
    name: str,
    expected: Verdict | tuple[Verdict, ...],
    reason: str,
    source: str,
    *,
    secrets: Callable[[Scene], tuple[bytes, ...]] | None = None,
    encoding: Encoding | None = None,
    how: How = "in one process",
    costly: bool = False,
) -> Callable[[Sent], Sent]:
    """Add a case to the table; the decorated function gives what is sent, one delivery or several.

    `expected`: the verdict of each. `secrets` are those that the receiver knows, else the sender's one.
    """

    def register(sent: Sent) -> Sent:
        def play(scene: Scene) -> Vector:
            scene = replace(scene, encoding=encoding or scene.encoding)
            made = sent(scene)
            deliveries = made if isinstance(made, tuple) else (made,)
            own = scene.webhook_secret if deliveries[0].kind == "webhook" else scene.secret
            known = (own,) if secrets is None else secrets(scene)
            verdicts = expected if isinstance(expected, tuple) else (expected,)
            return Vector(name, known, scene.encoding, deliveries, verdicts, reason, source, how)

        assert name not in CASES, name
        CASES[name] = play
        if costly:
            COSTLY.add(name)
        return sent

    return register


def accepted(name: str, reason: str, source: str, **settings: Any) -> Callable[[Sent], Sent]:
    return case(name, "accepted", reason, source, **settings)


def refused(name: str, reason: str, source: str, **settings: Any) -> Callable[[Sent], Sent]:
    return case(name, "refused", reason, source, **settings)


def draw_scene(random: Random) -> Scene:
    def secret() -> bytes:
        # Never shorter than 16 bytes: a random change of a short one could meet another.
        return random.randbytes(random.choice((16, 32, 64, 65, 200)))

    return Scene(
        random=random,
        secret=secret(),
        old_secret=secret(),
        webhook_secret=secret(),
        encoding=random.choice(("hex", "base64")),
        base=random.choice(HOSTS) + random.choice(PREFIXES),
        now=random.randint(1_700_000_000, 1_900_000_000),
    )

"""One service: the facts that the client needs about it, and how a request shows who sends it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct
from pydantic_core import to_json

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import SENSITIVE
from reconciler.core.steps import Call, Read
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.outcome import NOT_JSON, Outcome, Policy, parsed
from reconciler.services.signing import HEADER, Encoding, sign
from reconciler.services.transport import Answer


class Service(Struct, frozen=True):
    """The facts about one service that the client needs. `Auth` is how it knows the sender.

    `name`: its name in calls and reads. `label`: its name for people ("provider acme"); "" for the platform,
    which messages do not name.

    `policy`: the meaning of its error answers for a mutation. `content`: the part of a GET's body that is
    kept, as JSON; b"null" if none can be. `outcome`: the part of a mutation's answer that is kept. The parts
    that they drop never leave the client.

    `action`: the action that its rate limit counts, from method and path; None: it documents no limit.
    `essential`: no plan can be made without it, so a refused token (401) ends the run.

    Texts for messages: `check_access` of a path, after 403, and after 401 if the client does not know where
    its credential is from; `check_address`, if something else seems to have answered; `no_secret`, if the
    secret that signs requests cannot be read.
    """

    name: str
    policy: Policy
    content: Callable[[Read, bytes], bytes]
    outcome: Callable[[Outcome, Call], Outcome]
    check_access: Callable[[str], str]
    check_address: str
    no_secret: str = ""
    label: str = ""
    action: Callable[[str, str], str] | None = None
    essential: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """One attempt, ready to be sent. `credential`: the secret that it contains unchanged; "" if none."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    credential: str = field(default="", repr=False)


class Auth(Protocol):
    """Proves to a service who sends a request."""

    def prepare(self, method: str, url: str, body: Mapping[str, Any] | None, now: datetime) -> Prepared:
        """A request with its proof. Raises ReconcilerError (SecretUnavailable) if its secret is missing."""
        ...

    def check(self) -> None:
        """Raises the errors that `prepare` would raise."""
        ...


class BearerToken:
    """`token` is called for each request, and its result is not stored. `help`: where it comes from."""

    def __init__(self, token: Callable[[], str], help: str) -> None:
        self._token = token
        self._help = help

    def prepare(self, method: str, url: str, body: Mapping[str, Any] | None, now: datetime) -> Prepared:
        token = self._checked()
        content = None if body is None else json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        return Prepared(url, {"authorization": f"Bearer {token}"}, content, token)

    def check(self) -> None:
        self._checked()

    def _checked(self) -> str:
        """The token. Raises ReconcilerError if a header cannot contain it."""
        token = self._token()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ReconcilerError(
                "the token is empty, or contains characters that are not allowed in a header", help=self._help
            )
        return token


class Signature:
    """HMAC over each request (see `signing`). The token of another service is never sent.

    `secret` is called for each request, and its result is not stored; it raises SecretUnavailable.
    `new_nonce` returns a new text each time.
    """

    def __init__(
        self, secret: Callable[[], Sensitive], new_nonce: Callable[[], str], encoding: Encoding
    ) -> None:
        self._secret = secret
        self._new_nonce = new_nonce
        self._encoding = encoding

    def prepare(self, method: str, url: str, body: Mapping[str, Any] | None, now: datetime) -> Prepared:
        signed = sign(
            method,
            url,
            body,
            self._secret().reveal().encode(),
            timestamp=int(now.timestamp()),
            nonce=self._new_nonce(),
            encoding=self._encoding,
        )
        return Prepared(signed.url, {HEADER: signed.signatures[0]}, signed.body or None)

    def check(self) -> None:
        self._secret()


def without_credential(answer: Answer, credential: str) -> Answer:
    """An error answer without the token that it may repeat: its words are shown and recorded."""
    if not credential:
        return answer
    reply = parsed(answer.body)  # in JSON, the token may be escaped
    if reply is NOT_JSON:
        body = answer.body.replace(credential.encode(), SENSITIVE.encode())
    else:
        body = to_json(_replaced(reply, credential))
    headers = {name: value.replace(credential, SENSITIVE) for name, value in answer.headers.items()}
    return Answer(answer.status, headers, body)


def _replaced(value: Any, credential: str) -> Any:
    """A JSON value without the credential, in all of its texts and names."""
    if isinstance(value, str):
        return value.replace(credential, SENSITIVE)
    if isinstance(value, list):
        return [_replaced(item, credential) for item in value]
    if isinstance(value, dict):
        return {
            name.replace(credential, SENSITIVE): _replaced(item, credential) for name, item in value.items()
        }
    return value

"""How a request shows who sends it: by a bearer token, or by its signature."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from pydantic_core import to_json

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import SENSITIVE
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.answers import NOT_JSON, parsed
from reconciler.services.signing import HEADER, Encoding, sign
from reconciler.services.transport import Answer


@dataclass(frozen=True, slots=True)
class Prepared:
    """One attempt, ready to be sent. `credential`: what goes out with it as it is; "" for nothing."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    credential: str = field(default="", repr=False)


class Auth(Protocol):
    def prepare(self, method: str, url: str, body: Mapping[str, Any] | None, now: datetime) -> Prepared:
        """Raises ReconcilerError (SecretUnavailable for a secret) when there is nothing to prove it with."""
        ...

    def check(self) -> None:
        """Raises as `prepare` would."""
        ...


class BearerToken:
    """`token` is asked at each request and never kept elsewhere. `help`: where it comes from."""

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
        token = self._token()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ReconcilerError(
                "the token is empty, or contains characters that are not allowed in a header", help=self._help
            )
        return token


class Signature:
    """HMAC over each request (see `signing`). The token of another service is never sent.

    `secret` is asked at each request and never kept; it raises SecretUnavailable. `new_nonce` gives a text
    that was never given before.
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
    """An error answer, whose words are shown and recorded, without the token that it may repeat."""
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
    if isinstance(value, str):
        return value.replace(credential, SENSITIVE)
    if isinstance(value, list):
        return [_replaced(item, credential) for item in value]
    if isinstance(value, dict):
        return {
            name.replace(credential, SENSITIVE): _replaced(item, credential) for name, item in value.items()
        }
    return value

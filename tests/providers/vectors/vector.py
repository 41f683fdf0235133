"""What a signature vector is: deliveries to one receiver, and what must become of each."""

import base64
import hashlib
import hmac
import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

Encoding = Literal["hex", "base64"]
Kind = Literal["request", "webhook", "event"]
How = Literal["in one process", "with a restart between", "by two workers at once"]
Verdict = Literal[
    "accepted", "duplicate", "refused"
]  # duplicate: a webhook that came before, taken without effect


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request as it arrives at `at` (UNIX seconds). `signatures`: all values of the header."""

    method: str
    url: str
    signatures: tuple[str, ...]
    body: bytes
    at: float
    kind: Kind = "request"


@dataclass(frozen=True, slots=True)
class Vector:
    """`expected` holds a verdict for each delivery; with two workers, in any order."""

    case: str
    secrets: tuple[bytes, ...]
    encoding: Encoding
    deliveries: tuple[Delivery, ...]
    expected: tuple[Verdict, ...]
    reason: str
    source: str
    how: How = "in one process"

    def as_json(self) -> str:
        """One line; bytes in base64."""
        return json.dumps(asdict(self), default=_text_of)


def _text_of(value: Any) -> str:
    return base64.b64encode(value).decode("ascii")


def mac(secret: bytes, message: bytes, encoding: Encoding = "hex") -> str:
    """The signature of `message`, by the document alone (5.2 rule 1); what is tested has no part in it."""
    made = hmac.new(secret, message, hashlib.sha256)
    return made.hexdigest() if encoding == "hex" else base64.b64encode(made.digest()).decode("ascii")

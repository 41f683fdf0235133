"""What an approval says, and the file that holds it: a statement, and the SSH signature of its bytes.

    { "format": "reconcile-approval-1", … }
    -----BEGIN SSH SIGNATURE-----
    …
    -----END SSH SIGNATURE-----

The signature is of all that stands before its first line: `ssh-keygen -Y verify` needs no help of ours.
"""

import json
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from reconciler.core.errors import ReconcilerError

FORMAT = "reconcile-approval-1"
NAMESPACE = "reconcile-plan"
APPROVAL = "approval-"  # begins the id of an approval, which stands among those of plans
MOST_BYTES = 1 << 16
MOST_REASON = 500  # characters
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----\n", b"-----END SSH SIGNATURE-----\n"
_WIDTH = 70  # of the lines that ssh-keygen writes
_DIGEST = re.compile(r"[0-9a-f]{64}")
# No pattern, no list and no option of `ssh-keygen`, and fit to be part of a file's name.
PRINCIPAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._+-]{0,127}")


class Statement(Struct, frozen=True):
    """`plan`, `rehearsal`: digests; "" for a plan that was not rehearsed. `lineage`: of the state.

    `id`: random, so that two approvals are never the same one.
    """

    plan: str
    rehearsal: str
    environment: str
    lineage: str
    principal: str
    reason: str
    at: datetime
    expires: datetime
    id: str

    def to_bytes(self) -> bytes:
        """The only way to write it: what was signed can be read back in no other way."""
        said = asdict(self) | {"at": _written(self.at), "expires": _written(self.expires)}
        return (json.dumps({"format": FORMAT, **said}, indent=1) + "\n").encode()


class Approval(Struct, frozen=True):
    """`name`: of its file, for people. `signature`: as `ssh-keygen` writes it."""

    statement: Statement
    signature: bytes
    name: str = ""

    @property
    def id(self) -> str:
        """What is journaled when it is used. Two signatures of one statement are one approval."""
        return f"{APPROVAL}{sha256(self.statement.to_bytes()).hexdigest()}"

    def to_bytes(self) -> bytes:
        return self.statement.to_bytes() + self.signature

    def to_json(self) -> dict[str, str]:
        """Whole, for the journal."""
        return {
            "id": self.id,
            "statement": self.statement.to_bytes().decode(),
            "signature": self.signature.decode(),
        }


def parse_approval(data: bytes, name: str) -> Approval:
    """Raises ReconcilerError for anything but what `Approval.to_bytes` writes."""
    text, begin, rest = data.partition(_BEGIN)
    body, end, more = rest.partition(_END)
    if len(data) > MOST_BYTES or not begin or not end or more or not _is_armor(body):
        raise _broken(name, "it does not hold a statement and one whole SSH signature")
    return Approval(parse_statement(text, name), begin + body + end, name)


def _is_armor(body: bytes) -> bool:
    """Whether `ssh-keygen` writes it so: there is one way, and no byte more."""
    try:
        data = b64encode(b64decode(body.replace(b"\n", b""), validate=True))
    except NotBase64:
        return False
    lines = (data[at : at + _WIDTH] for at in range(0, len(data), _WIDTH))
    return bool(data) and body == b"".join(line + b"\n" for line in lines)


def parse_statement(text: bytes, name: str) -> Statement:
    """Raises ReconcilerError."""
    try:
        said: Any = json.loads(text)
        if not isinstance(said, dict) or said.pop("format", None) != FORMAT:
            raise _broken(name, f"its statement is not of the format {FORMAT}")
        at, expires = (_read(said.pop(each)) for each in ("at", "expires"))
        statement = Statement(**said, at=at, expires=expires)
        written = statement.to_bytes()
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _broken(name, "its statement cannot be read") from None
    problems = list(_wrong(statement))
    if problems or written != text:
        raise _broken(name, f"its statement has a wrong `{problems[0]}`" if problems else "it was rewritten")
    return statement


def _wrong(statement: Statement) -> Sequence[str]:
    texts = {name: value for name, value in asdict(statement).items() if name not in ("at", "expires")}
    wrong = [name for name, value in texts.items() if not isinstance(value, str)]
    if wrong:
        return wrong
    fits = {
        "plan": bool(_DIGEST.fullmatch(statement.plan)),
        "rehearsal": not statement.rehearsal or bool(_DIGEST.fullmatch(statement.rehearsal)),
        "principal": bool(PRINCIPAL.fullmatch(statement.principal)),
        "reason": is_reason(statement.reason),
        "id": bool(re.fullmatch(r"[0-9a-f]{32}", statement.id)),
        "expires": statement.at < statement.expires,
    }
    return [name for name, fit in fits.items() if not fit]


def is_reason(text: str) -> bool:
    """Whether people can read it: one line, not blank, without characters that steer a display."""
    return text.isprintable() and bool(text.strip()) and len(text) <= MOST_REASON


def _broken(name: str, why: str) -> ReconcilerError:
    return ReconcilerError(
        f"{name} is not an approval: {why}", help="give the file that `reconcile approve` wrote, unchanged"
    )


def _read(at: str) -> datetime:
    return datetime.strptime(at, _TIME).replace(tzinfo=UTC)


def _written(at: datetime) -> str:
    return at.astimezone(UTC).strftime(_TIME)

"""Encryption with age: files that may be committed, and the identities that decrypt them.

Source: the age v1 format; X25519 and SSH (ed25519, RSA) keys.
"""

import re
from base64 import b64decode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Union

from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError, SecretUnavailable
from reconciler.secrets.sensitive import MAX_BYTES

if TYPE_CHECKING:
    from pyrage import ssh, x25519

    Identity = Union[x25519.Identity, ssh.Identity]  # noqa: UP007 - only a name for the type checker
    Recipient = Union[x25519.Recipient, ssh.Recipient]  # noqa: UP007 - likewise

# Armor adds a third and line breaks, and each recipient a line to the header.
MAX_ENCRYPTED_BYTES = 2 * MAX_BYTES

MAX_IDENTITIES_BYTES = 128 * 1024  # all are tried on every value; the longest SSH keys have some 13 kB

_SSH_BEGIN = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_SSH_END = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_SECRET_KEY = "AGE-SECRET-KEY-"  # noqa: S105 - how each one begins
_ARMORED = re.compile(
    rb"-----BEGIN AGE ENCRYPTED FILE-----\s([A-Za-z0-9+/=\s]+)-----END AGE ENCRYPTED FILE-----"
)
_BEGINNING = b"age-encryption.org/v1\n"
_PASSPHRASE = b"\n-> scrypt "
_ENCRYPT = command("secret", "encrypt")
_ENCRYPT_TO = command("secret", "encrypt", "--to", "RECIPIENT")
_NO_MATCH = "No matching keys found"  # only this text distinguishes it from damage in pyrage


class NotForUs(SecretUnavailable):
    """The value is encrypted for other recipients."""


def parse_identities(text: str, what: str) -> "list[Identity]":
    """Return the identities in `text`: age's own, one a line, and SSH private keys; comments begin with `#`.

    Raises SecretUnavailable if one of them is not valid. The message names `what`, and never the text.
    """
    from pyrage import IdentityError, ssh, x25519

    if len(text.encode()) > MAX_IDENTITIES_BYTES:
        raise SecretUnavailable(f"{what} is larger than {MAX_IDENTITIES_BYTES} bytes")
    keys, others = _split(text)
    found: list[Identity] = []
    problem = ""
    of = "an SSH key"
    try:
        found += (ssh.Identity.from_buffer(f"{key}\n".encode()) for key in keys)
        of = "an age identity"
        lines = (line.strip() for line in others.splitlines())
        found += (x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#"))
    except IdentityError as failure:
        problem = str(failure)
    if "must be decrypted" in problem:
        raise SecretUnavailable(
            f"{of} in {what} is locked with a passphrase", help="give an identity without a passphrase"
        )
    if problem:
        raise SecretUnavailable(
            f"{of} in {what} is not valid",
            help="an identity is a line AGE-SECRET-KEY-1…, or an SSH private key (ed25519 or RSA)",
        )
    if not found:
        raise SecretUnavailable(f"{what} holds no age identity")
    return found


def _split(text: str) -> tuple[Sequence[str], str]:
    """Return the SSH keys in `text`, and the rest of it, in linear time."""
    keys, others, at = [], [], 0
    while (begin := _SSH_BEGIN.search(text, at)) and (end := _SSH_END.search(text, begin.end())):
        keys.append(text[begin.start() : end.end()])
        others.append(text[at : begin.start()])
        at = end.end()
    return keys, "".join((*others, text[at:]))


def decrypt(data: bytes, identities: "Sequence[Identity]", what: str) -> bytes:
    """Return the plaintext. `data`: binary or armored. Raises SecretUnavailable that names `what`."""
    import pyrage

    if len(data) > MAX_ENCRYPTED_BYTES:
        raise SecretUnavailable(f"{what} is larger than {MAX_ENCRYPTED_BYTES} bytes")
    try:
        return pyrage.decrypt(data.strip() if data.lstrip()[:1] == b"-" else data, identities)
    except pyrage.DecryptError as failure:
        refused = str(failure) == _NO_MATCH
    if refused:
        raise NotForUs(
            f"{what} is not encrypted for any of the age identities that were given",
            help=f"encrypt it again with `{_ENCRYPT_TO}`, for this identity's recipient, or provide another "
            "identity",
            advice=(_ENCRYPT_TO,),
        )
    raise SecretUnavailable(
        f"{what} is damaged, or not encrypted with age",
        help=f"create it again with `{_ENCRYPT}`",
        advice=(_ENCRYPT,),
    )


def is_encrypted(data: bytes) -> bool:
    """Whether `data` is output of `encrypt` or `age` for recipients, armored or binary, and nothing else.

    Data locked with a passphrase does not count: no source reads it, and it may be the only copy of a key.
    """
    armored = _ARMORED.fullmatch(data.strip())
    if armored is not None:
        letters = b"".join(armored[1].split())
        data = b64decode(letters[: len(letters) // 4 * 4])
    header = data.partition(b"\n--- ")[0]
    return data.startswith(_BEGINNING) and _PASSPHRASE not in header


def encrypt(value: bytes, recipients: Sequence[str]) -> str:
    """Return armored text that all `recipients` (age1…, ssh-ed25519 …, ssh-rsa …) can decrypt.

    Raises ReconcilerError with the number of an invalid recipient, not its text: it may be a private key.
    """
    import pyrage

    return pyrage.encrypt(value, parse_recipients(recipients), armored=True).decode()


def parse_recipients(recipients: Sequence[str]) -> "list[Recipient]":
    """Return the recipients for pyrage. Raises as `encrypt` does."""
    import pyrage
    from pyrage import ssh, x25519

    parsed: list[Recipient] = []
    for number, text in enumerate(recipients, start=1):
        try:
            of = ssh.Recipient if text.startswith("ssh-") else x25519.Recipient
            parsed.append(of.from_str(text.strip()))
        except pyrage.RecipientError:
            pass
        if len(parsed) < number:
            private = text.strip().upper().startswith(_SECRET_KEY)
            raise ReconcilerError(
                f"recipient {number} is a private key" if private else f"recipient {number} is not valid",
                help="a recipient is public: age1…, ssh-ed25519 … or ssh-rsa …"
                + ("; this key is now exposed: create another one" if private else ""),
            )
    return parsed

"""Files encrypted with age, and the identities that decrypt them."""

import re
import struct
from base64 import b64decode, b64encode
from itertools import count
from pathlib import Path
from typing import NoReturn

import pyrage
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from reconciler.core.errors import ReconcilerError, SecretUnavailable
from reconciler.core.steps import OutputRef, SecretRef
from reconciler.secrets import age
from reconciler.secrets.sensitive import MAX_BYTES
from reconciler.secrets.sources import Allowed, Sources
from tests.age_keys import generate

IDENTITY, RECIPIENT = generate()
OTHER, OTHERS_RECIPIENT = generate()
HERE = SecretRef("age", "manifests/pw.age")
ENV = {"RECONCILE_AGE_IDENTITY": IDENTITY}


def no_output(ref: OutputRef) -> NoReturn:
    raise KeyError(ref)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "manifests").mkdir()
    return tmp_path


def binary(value: bytes, recipient: str = RECIPIENT) -> bytes:
    return pyrage.encrypt(value, [pyrage.x25519.Recipient.from_str(recipient)])


def value_of(
    root: Path,
    content: bytes | str | None = None,
    env: dict[str, str] = ENV,
    ref: SecretRef = HERE,
    allowed: Allowed | None = None,
) -> str:
    if content is not None:
        (root / HERE.name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return Sources(root, env, allowed).value(ref, no_output).reveal()


def unavailable(root: Path, content: bytes | str | None = None, env: dict[str, str] = ENV) -> str:
    """What is told, when nothing of the value or an identity is."""
    with pytest.raises(SecretUnavailable) as missing:
        value_of(root, content, env)
    told = f"{missing.value.message}\n{missing.value.help}"
    for hidden in ("hunter2", IDENTITY, OTHER, IDENTITY[20:], OTHER[20:]):
        assert hidden not in told
    cause: BaseException | None = missing.value.__context__
    assert cause is None
    return told


@pytest.mark.parametrize("armored", [True, False])
def test_a_file_gives_its_value_without_one_last_newline(root: Path, armored: bool) -> None:
    value = b"hunter2\n\n"
    assert value_of(root, age.encrypt(value, [RECIPIENT]) if armored else binary(value)) == "hunter2\n"


def test_the_armored_text_itself_gives_its_value(root: Path) -> None:
    text = age.encrypt(b"hunter2", [RECIPIENT])
    for written in (text, text.replace("\n", "\r\n"), f"\n  {text}\n\n", text.rstrip()):
        assert value_of(root, ref=SecretRef("age", written)) == "hunter2"


@pytest.mark.parametrize(
    "text", [f"{OTHER}\n{IDENTITY}", f"# key\n\n  {IDENTITY}  \r\n# end", f"{IDENTITY}\n"], ids=count()
)
def test_any_of_several_identities_decrypts(root: Path, text: str) -> None:
    assert value_of(root, binary(b"hunter2"), {"RECONCILE_AGE_IDENTITY": text}) == "hunter2"


def test_each_of_several_recipients_decrypts(root: Path) -> None:
    both = age.encrypt(b"hunter2", [RECIPIENT, OTHERS_RECIPIENT])
    for identity in (IDENTITY, OTHER):
        assert value_of(root, both, {"RECONCILE_AGE_IDENTITY": identity}) == "hunter2"


def ssh_key() -> tuple[str, str]:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    return private, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def test_an_ssh_key_is_an_identity_also_beside_others(root: Path) -> None:
    private, public = ssh_key()
    for text in (private, private.rstrip(), f"{OTHER}\n{private}"):
        encrypted = age.encrypt(b"hunter2", [f"{public} somebody@example"])
        assert value_of(root, encrypted, {"RECONCILE_AGE_IDENTITY": text}) == "hunter2"


def test_an_ssh_key_with_a_passphrase_is_refused(root: Path) -> None:
    def field(content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + content

    public = b64decode(ssh_key()[1].split()[1])
    rounds = field(field(b"salt" * 4) + struct.pack(">I", 16))
    head = field(b"aes256-ctr") + field(b"bcrypt") + rounds + struct.pack(">I", 1)
    locked = b64encode(b"openssh-key-v1\0" + head + field(public) + field(b"\0" * 144)).decode()
    kind = "OPENSSH PRIVATE KEY"
    text = f"{IDENTITY}\n-----BEGIN {kind}-----\n{locked}\n-----END {kind}-----\n"
    told = unavailable(root, binary(b"hunter2"), {"RECONCILE_AGE_IDENTITY": text})
    assert "an SSH key in" in told
    assert "locked with a passphrase" in told


def test_the_environment_goes_before_the_settings(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "mine.txt").write_text(IDENTITY)
    (root / "others.txt").write_text(OTHER)
    content = binary(b"hunter2")
    in_settings = Allowed(identity_from=SecretRef("file", "mine.txt"))
    assert value_of(root, content, {}, allowed=in_settings) == "hunter2"
    named = Allowed(identity_from=SecretRef("env", "KEY"))
    assert value_of(root, content, {"KEY": IDENTITY}, allowed=named) == "hunter2"
    monkeypatch.chdir(root / "manifests")
    of_file = {"RECONCILE_AGE_IDENTITY_FILE": "../mine.txt"}
    others = Allowed(identity_from=SecretRef("file", "others.txt"))
    assert value_of(root, content, of_file, allowed=others) == "hunter2"
    assert value_of(root, content, {**of_file, **ENV}, allowed=others) == "hunter2"
    with pytest.raises(SecretUnavailable, match="not encrypted for any"):
        value_of(root, content, {}, allowed=others)


def test_the_identitys_file_may_be_in_the_home_directory(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key.txt").write_text(IDENTITY)
    allowed = Allowed(identity_from=SecretRef("file", "~/key.txt"))
    assert value_of(root, binary(b"hunter2"), {}, allowed=allowed) == "hunter2"


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({}, "there is no age identity to decrypt with"),
        ({"RECONCILE_AGE_IDENTITY": ""}, "RECONCILE_AGE_IDENTITY_FILE"),
        (
            {"RECONCILE_AGE_IDENTITY": OTHER},
            "`manifests/pw.age` is not encrypted for any of the age identities",
        ),
        ({"RECONCILE_AGE_IDENTITY": "# nothing\n"}, "holds no age identity"),
        ({"RECONCILE_AGE_IDENTITY": f"{OTHER}\n{IDENTITY[:-3]}"}, "an age identity in the variable"),
        ({"RECONCILE_AGE_IDENTITY": "AGE-PLUGIN-YUBIKEY-1HUNTER2"}, "an age identity in"),
        ({"RECONCILE_AGE_IDENTITY": "hunter2"}, "is not valid"),
        (
            {"RECONCILE_AGE_IDENTITY_FILE": "/nowhere/key.txt"},
            "file `/nowhere/key.txt` cannot be read: No such",
        ),
        ({"RECONCILE_AGE_IDENTITY_FILE": "/dev/zero"}, "is not a regular file"),
        ({"RECONCILE_AGE_IDENTITY_FILE": "/dev/null"}, "is not a regular file"),
    ],
)
def test_what_is_wrong_with_the_identity_is_told_without_it(
    root: Path, env: dict[str, str], told: str
) -> None:
    assert told in unavailable(root, binary(b"hunter2"), env)


def test_a_file_of_identities_has_an_end(root: Path) -> None:
    """A MB of such lines took four minutes, in which no signal was heeded."""
    (root / "key.txt").write_text("-----BEGIN A PRIVATE KEY-----\n" * 35_000)
    told = unavailable(root, binary(b"hunter2"), {"RECONCILE_AGE_IDENTITY_FILE": str(root / "key.txt")})
    assert "is larger than 131072 bytes" in told
    with pytest.raises(SecretUnavailable, match="the variable is larger than 131072 bytes"):
        age.parse_identities("é" * 65_537, "the variable")


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN A PRIVATE KEY-----\n" * 200_000,
        ("-----BEGIN " + "A " * 3_000_000 + "\n") * 2,
        "-----BEGIN PRIVATE KEY-----\n-----END " * 150_000,
    ],
    ids=count(),
)
def test_keys_without_an_end_are_none(text: str) -> None:
    """What tries each beginning up to the end of the text would take hours."""
    assert age._split(text) == ([], text)


def test_white_space_is_no_value() -> None:
    """Likewise."""
    assert not age.is_encrypted(b"-----BEGIN AGE ENCRYPTED FILE-----" + b" " * 2_000_000 + b"x")


def test_keys_are_found_where_the_expression_found_them() -> None:
    a, b = "-----BEGIN A PRIVATE KEY-----", "-----END B PRIVATE KEY-----"
    text = f"# one\n{a}\nx\n{a}\n{b}\nbetween\n{b}\n{a}{b}rest{a}"
    keys, others = age._split(text)
    assert keys == re.findall(f"{a}.*?{b}", text, re.DOTALL)
    assert others == re.sub(f"{a}.*?{b}", "", text, flags=re.DOTALL)


# Locked with a passphrase. Made once: how much work that is to be, is measured by a second of it.
LOCKED_ARMORED = b"""\
-----BEGIN AGE ENCRYPTED FILE-----
YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCA4QmpOMVlNd25PMm1adXdr
em5XbXZnIDE2Clg5ZzNadWdHVzNBR2UvRVNzeDZpMTE0UGFuRW1LY2tMUjJVQkx0
VFFzencKLS0tIERCdTdhVEhYcTErdDUveUFlc0diRmxlSjdXTFk3dS8zVFJZUGto
N0ZzZWsKSqYLgofwtdb5/m9k3NivuWMEdtfo1qTL+UfngNd27tZkfEI=
-----END AGE ENCRYPTED FILE-----
"""
LOCKED = b64decode(b"".join(LOCKED_ARMORED.splitlines()[1:-1]))
GOOD = binary(b"hunter2")
ARMORED = age.encrypt(b"hunter2" * 20, [RECIPIENT]).encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (GOOD[:-1], "is damaged, or not encrypted"),
        (GOOD[:-3] + b"abc", "is damaged"),
        (GOOD[:40], "is damaged"),
        (ARMORED[: len(ARMORED) // 2], "is damaged"),
        (ARMORED.replace(b"\n", b"", 3), "is damaged"),
        (b"", "is damaged"),
        (b"hunter2\n", "is damaged, or not encrypted"),
        (b"x" * (age.MAX_ENCRYPTED_BYTES + 1), "is larger than 2097152 bytes"),
        (LOCKED, "is not encrypted for any"),
        (binary(b""), "is empty"),
        (binary(b"\n"), "is empty"),
        (binary(b"hunter2\xff"), "is not UTF-8 text"),
        (binary(b"hunter2" * MAX_BYTES), "is larger than"),
        (binary(b"x" * (MAX_BYTES + 1)), "the content of the file `manifests/pw.age` is larger than 1048576"),
    ],
    ids=count(),  # keys differ in each worker
)
def test_what_is_wrong_with_the_file_is_told_without_its_bytes(root: Path, content: bytes, told: str) -> None:
    assert told in unavailable(root, content)


@pytest.mark.parametrize(
    ("content", "is_encrypted"),
    [
        (GOOD, True),
        (ARMORED, True),
        (ARMORED.replace(b"\n", b"\r\n"), True),
        (b"\n" + ARMORED.rstrip(), True),
        (IDENTITY.encode(), False),
        (b"# created\n" + ARMORED, False),
        (ARMORED + b"more: text\n", False),
        (ARMORED + ARMORED, False),
        (ARMORED[: len(ARMORED) // 2], False),
        (b"-----BEGIN AGE ENCRYPTED FILE-----\nabc\n-----END AGE ENCRYPTED FILE-----\n", False),
        (LOCKED, False),
        (LOCKED_ARMORED, False),
        (b"", False),
    ],
    ids=count(),
)
def test_what_is_encrypted_to_recipients_is_known_without_an_identity(
    content: bytes, is_encrypted: bool
) -> None:
    assert age.is_encrypted(content) is is_encrypted


def test_a_missing_file_is_named(root: Path) -> None:
    assert "the file `manifests/pw.age` cannot be read: No such file" in unavailable(root)


def test_a_value_is_decrypted_once_a_run_and_so_is_its_failure(root: Path) -> None:
    (root / HERE.name).write_bytes(GOOD)
    missing = SecretRef("age", "manifests/later.age")
    sources = Sources(root, ENV)
    assert sources.value(HERE, no_output).reveal() == "hunter2"
    with pytest.raises(SecretUnavailable):
        sources.value(missing, no_output)
    (root / HERE.name).rename(root / missing.name)
    assert sources.value(HERE, no_output).reveal() == "hunter2"
    with pytest.raises(SecretUnavailable, match="cannot be read"):
        sources.value(missing, no_output)


@pytest.mark.parametrize(
    ("recipient", "told"),
    [
        ("age1hunter2", "is not valid"),
        ("ssh-dss AAAA", "is not valid"),
        (IDENTITY, "is a private key"),
        ("", "valid"),
    ],
    ids=count(),
)
def test_a_wrong_recipient_is_told_by_its_number(recipient: str, told: str) -> None:
    with pytest.raises(ReconcilerError, match=re.escape("recipient 2")) as refused:
        age.encrypt(b"hunter2", [RECIPIENT, recipient])
    assert told in refused.value.message
    assert IDENTITY not in f"{refused.value.message}{refused.value.help}"

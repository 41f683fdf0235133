"""SSH signatures by `ssh-keygen`, and the keys to make them with.

No shell, and no variable that it does not need.
"""

import subprocess
import tempfile
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from reconciler.core.errors import ReconcilerError

VERIFY_S, SIGN_S = 20, 300  # a person types a passphrase, or touches a key
_NEEDED = ("PATH", "HOME", "TZ", "TMPDIR")
_TO_SIGN = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY", "TERM")
NAMESPACE = "reconcile-plan"  # of the signatures: one for another purpose does not count
_MAGIC = b"SSHSIG"
# Of a public key in a certificate, by its type. All keys of a type that is missing here count as one.
_PARTS = {
    b"ssh-ed25519": 1,
    b"ssh-rsa": 2,
    b"ssh-dss": 4,
    b"ecdsa-sha2": 2,
    b"sk-ssh-ed25519": 2,
    b"sk-ecdsa-sha2": 3,
}


class Key(Struct, frozen=True):
    """`file`: what `ssh-keygen -f` takes; None for a key of the agent. `public`: "ssh-ed25519 AAAA…"."""

    file: Path | None
    public: str

    @property
    def fingerprint(self) -> str:
        return fingerprint(b64decode(self.public.split()[1]))


def fingerprint(blob: bytes) -> str:
    """As ssh shows it: SHA256:…"""
    return f"SHA256:{b64encode(sha256(blob).digest()).decode().rstrip('=')}"


def verifies(
    statement: bytes, signature: bytes, principal: str, signers: bytes, at: datetime, env: Mapping[str, str]
) -> str:
    """ "" for a signature that `principal`, whom `signers` names, may have made at this time; else why not.

    Raises ReconcilerError where nothing can be said.
    """
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        allowed, signed = Path(folder, "allowed_signers"), Path(folder, "signature")
        allowed.write_bytes(signers)
        signed.write_bytes(signature)
        # In local time, which is what those versions take that know no Z.
        moment = f"verify-time={at.astimezone():%Y%m%d%H%M%S}"
        who: list[str | Path] = ["-f", allowed, "-I", principal]
        what: list[str | Path] = ["-n", NAMESPACE, "-s", signed, f"-O{moment}"]
        done = _run(["ssh-keygen", "-Y", "verify", *who, *what], statement, _env(env, _NEEDED), VERIFY_S)
    if done.returncode == 0:
        return ""
    return _said(done.stderr) or "ssh-keygen does not accept the signature"


def why_not_signed(statement: bytes, signature: bytes, env: Mapping[str, str]) -> str:
    """ "" for a signature of `statement` with any key; else why not. Raises ReconcilerError as `verifies`."""
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        signed = Path(folder, "signature")
        signed.write_bytes(signature)
        command: list[str | Path] = ["ssh-keygen", "-Y", "check-novalidate", "-n", NAMESPACE, "-s", signed]
        done = _run(command, statement, _env(env, _NEEDED), VERIFY_S)
    if done.returncode == 0:
        return ""
    return _said(done.stderr) or "ssh-keygen does not accept the signature"


def sign(statement: bytes, key: Key, env: Mapping[str, str]) -> bytes:
    """The armored signature. Raises ReconcilerError."""
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        file = key.file
        if file is None:
            file = Path(folder, "key.pub")
            file.write_text(f"{key.public}\n", encoding="ascii")
        command: list[str | Path] = ["ssh-keygen", "-Y", "sign", "-f", file, "-n", NAMESPACE]
        done = _run(command, statement, _env(env, (*_NEEDED, *_TO_SIGN)), SIGN_S)
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----\n"):
        why = _said(done.stderr) or "ssh-keygen gave no signature"
        raise ReconcilerError(
            f"{key.file or key.fingerprint} does not sign: {why}",
            help="check the passphrase, or unlock the agent (`ssh-add -X`) and see that it has the key "
            "(`ssh-add -l`)",
        )
    if signing_key(done.stdout) != b64decode(key.public.split()[1]):
        raise ReconcilerError(
            f"{key.file} and the public key beside it are of two keys",
            help=f"write the public key anew: ssh-keygen -y -f {key.file} > {key.file}.pub",
        )
    return done.stdout


def signing_key(signature: bytes) -> bytes:
    """The public key that stands in an armored signature. Raises ReconcilerError."""
    try:
        data = b64decode(b"".join(signature.split(b"\n")[1:-2]), validate=True)
        version, (blob, _) = data[6:10], _text(data, 10)
    except (NotBase64, ValueError):
        data, version, blob = b"", b"", b""
    if data[:6] != _MAGIC or version != b"\0\0\0\1" or not blob:
        raise ReconcilerError("this is not an SSH signature")
    return blob


def plain_key(blob: bytes) -> bytes:
    """The public key in `blob`, also where it is a certificate about it. Raises ValueError for a broken one.

    Source: OpenSSH's PROTOCOL.certkeys.
    """
    kind, at = _text(blob, 0)
    plain, certificate, _ = kind.partition(b"-cert-v01@openssh.com")
    if not certificate:
        return blob
    _, begin = _text(blob, at)  # a nonce
    end = begin
    for _ in range(_PARTS.get(plain.split(b"-nistp")[0], 0)):
        _, end = _text(blob, end)
    name = plain + (b"@openssh.com" if plain.startswith(b"sk-") else b"")
    return len(name).to_bytes(4) + name + blob[begin:end]


def public_of(file: Path, env: Mapping[str, str]) -> Key:
    """The key in `file`: a private one, or the public one of a key in the agent. Raises ReconcilerError."""
    if not file.is_file():
        raise ReconcilerError(
            f"there is no key {file}", help="name a private key, or the public one of a key in the agent"
        )
    beside = file if file.suffix == ".pub" else file.with_name(f"{file.name}.pub")
    if beside.is_file():
        return Key(file, _public(_read(beside), str(beside)))
    text = _read(file)
    if text.startswith(("ssh-", "ecdsa-", "sk-")):
        return Key(file, _public(text, str(file)))
    done = _run(["ssh-keygen", "-y", "-f", file], b"", _env(env, (*_NEEDED, *_TO_SIGN)), SIGN_S)
    if done.returncode:
        raise ReconcilerError(
            f"cannot use the key {file}: {_said(done.stderr)}",
            help="a key can be read by its owner only (chmod 600), and needs its passphrase",
        )
    return Key(file, _public(done.stdout.decode(errors="replace"), str(file)))


def agent_keys(env: Mapping[str, str]) -> Sequence[str]:
    """The public keys of the agent. Raises ReconcilerError where there is none, or it does not answer."""
    done = _run(["ssh-add", "-L"], b"", _env(env, (*_NEEDED, "SSH_AUTH_SOCK")), VERIFY_S)
    if done.returncode == 2:
        raise ReconcilerError(
            "there is no ssh agent here", help="pass --key FILE, or start one: eval $(ssh-agent)"
        )
    if done.returncode:
        raise ReconcilerError(
            "the ssh agent has no key, or is locked",
            help="pass --key FILE, add one with `ssh-add`, or unlock it with `ssh-add -X`",
        )
    return [_public(line, "ssh-add -L") for line in done.stdout.decode(errors="replace").splitlines()]


def _public(text: str, where: str) -> str:
    words = text.split()
    try:
        if len(words) >= 2 and b64decode(words[1], validate=True):
            return " ".join(words[:2])
    except NotBase64:
        pass
    raise ReconcilerError(f"{where} does not hold a public key", help="name another one with --key FILE")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as failure:
        raise ReconcilerError(f"cannot read {file}: {failure.strerror}") from failure


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    """The SSH string at `at`, and where it ends. Raises ValueError."""
    length = int.from_bytes(data[at : at + 4], "big")
    end = at + 4 + length
    if len(data) < end:
        raise ValueError("too short")
    return data[at + 4 : end], end


def _env(env: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {**{name: env[name] for name in names if name in env}, "LC_ALL": "C"}


def _run(
    command: Sequence[str | Path], stdin: bytes, env: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - no shell, and names cannot be options
            command, input=stdin, capture_output=True, env=env, timeout=timeout_s, check=False
        )
    except FileNotFoundError:
        raise ReconcilerError(
            f"there is no program `{command[0]}` here",
            help="install OpenSSH's client (Debian: openssh-client)",
        ) from None
    except subprocess.TimeoutExpired:
        raise ReconcilerError(f"`{command[0]}` did not answer within {timeout_s:g} s") from None
    except OSError as failure:
        raise ReconcilerError(f"`{command[0]}` cannot be run: {failure.strerror or failure}") from failure


def _said(stderr: bytes) -> str:
    """The last line that it printed: what went wrong."""
    lines = stderr.decode(errors="replace").replace("\r", "").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

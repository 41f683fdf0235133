"""People with SSH keys, and approvals that they give."""

import os
import secrets
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.approvals.rules import Signers
from reconciler.approvals.ssh import public_of, sign
from reconciler.approvals.statement import Approval, Statement

ENV = {name: os.environ[name] for name in ("PATH",)}
AT = datetime(2026, 1, 1, tzinfo=UTC)
DIGEST, REHEARSED, LINEAGE = "a" * 64, "b" * 64, "6c1e0a52-4c0f-4f9e-9d43-0f3f1f1d8a57"

SAID = Statement(
    plan=DIGEST,
    rehearsal=REHEARSED,
    environment="base",
    lineage=LINEAGE,
    principal="ana@example.com",
    reason="old data",
    at=AT,
    expires=AT + timedelta(hours=24),
    id="0" * 32,
)


@dataclass(frozen=True)
class Person:
    name: str
    key: Path

    @property
    def public(self) -> str:
        return " ".join(self.key.with_name(f"{self.key.name}.pub").read_text().split()[:2])

    def line(self, options: str = 'namespaces="reconcile-plan"', name: str = "") -> str:
        return f"{name or self.name} {options} {self.public}\n"

    def approves(self, statement: Statement = SAID, **said: Any) -> Approval:
        own = {"principal": self.name, "id": secrets.token_hex(16)}
        told = replace(statement, **(own | said))
        return Approval(
            told, sign(told.to_bytes(), public_of(self.key, ENV), ENV), f"{told.principal}.approval"
        )


def make(folder: Path, name: str, *options: str) -> Person:
    key = folder / f"key-of-{name}"
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", key, *(options or ("-t", "ed25519"))], check=True)
    return Person(name, key)


def signers(lines: Iterable[str], where: str = "`allowed_signers` at main") -> Signers:
    return Signers("".join(lines), where)


def plainly_verified(approval: bytes, principal: str, allowed: bytes, folder: Path, at: datetime) -> bool:
    """What a person finds who types the commands of docs/how-to/approvals.md."""
    text, begin, rest = approval.partition(b"-----BEGIN SSH SIGNATURE-----\n")
    (folder / "signers").write_bytes(allowed)
    (folder / "statement.sig").write_bytes(begin + rest)
    command = ["ssh-keygen", "-Y", "verify", "-f", "signers", "-I", principal, "-n", "reconcile-plan"]
    moment = f"-Overify-time={at.astimezone():%Y%m%d%H%M%S}"
    done = subprocess.run(
        [*command, "-s", "statement.sig", moment],
        cwd=folder,
        input=text,
        capture_output=True,
        env=ENV,
        check=False,
    )
    return done.returncode == 0

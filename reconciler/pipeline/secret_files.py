"""Files of encrypted values and of age identities: none is overwritten that may be the only one."""

import os
from pathlib import Path

from reconciler.core.errors import ReconcilerError, SecretUnavailable
from reconciler.pipeline.files import write_output
from reconciler.secrets import age
from reconciler.secrets.sources import read_bytes


def refuse_other_files(out: Path) -> None:
    """Raises ReconcilerError where something else than an encrypted value stands: it would be lost."""
    if not os.path.lexists(out):
        return
    try:
        data = read_bytes(out, str(out), age.MAX_ENCRYPTED_BYTES)
    except SecretUnavailable as unreadable:
        message = unreadable.message
    else:
        if len(data) <= age.MAX_ENCRYPTED_BYTES and age.is_encrypted(data):
            return
        message = f"{out} exists and is not a value encrypted with age"
    raise ReconcilerError(message, help="--out replaces only an encrypted value: name another FILE")


def write_encrypted(out: Path, armored: str) -> None:
    """All of it or nothing: a file that is there stays as it is until the new one is complete."""
    refuse_other_files(out)  # meanwhile
    write_output(out, armored.encode("ascii"), mode=0o600)

"""Saved plans as files: readable for their owner only."""

import os
from pathlib import Path

from reconciler.core.errors import ReconcilerError


def read_plan_file(file: Path) -> bytes:
    """Raises ReconcilerError."""
    try:
        return file.read_bytes()
    except OSError as failure:
        raise ReconcilerError(f"cannot read {file}: {failure.strerror}") from failure


def write_plan_file(file: Path, text: bytes) -> None:
    """Raises ReconcilerError."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            os.fchmod(descriptor, 0o600)
            out.write(text)
    except OSError as failure:
        raise ReconcilerError(f"cannot write {file}: {failure.strerror}") from failure

"""Making files and their names durable, and folders private."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path) -> None:
    """Make the folder, for its owner only. `mkdir` gives its mode to the last of several new ones only."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)

"""The first line of a generated manifest, by which editors with a YAML language server find the schema."""

import os
from pathlib import Path

SCHEMA_FILE = "reconcile.schema.json"  # beside reconcile.yaml, and committed with it


def modeline(folder: Path, root: Path) -> str:
    """The comment for a file of `folder`, without its `#`; `root` is the project's root.

    The schema is named relative to the folder, which is where language servers look for it. It need not
    be there yet: `reconcile schema --out reconcile.schema.json` writes it.
    """
    # Not resolved: the editor does not resolve it either.
    relative = os.path.relpath(root.absolute() / SCHEMA_FILE, folder.absolute())
    return f"yaml-language-server: $schema={Path(relative).as_posix()}"

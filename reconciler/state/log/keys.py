"""The keys of all objects, below the prefix of the URL."""

import re

from reconciler.core.context import BASE

_PLAIN = re.compile(r"[A-Za-z0-9_-]")


class Layout:
    """`environment`: whose state it is; "" for that of none. `generation`: see `root.Root`; "": not known."""

    def __init__(self, environment: str, generation: str = "") -> None:
        self.environment = f"{environment or BASE}/"
        self.root = f"{self.environment}state.json"
        self.folder = f"{self.environment}{generation}/"
        self.heads = f"{self.folder}heads/"
        self.leases = f"{self.folder}leases/"

    def head(self, scope: str) -> str:
        return f"{self.heads}{quoted(scope)}"

    def lease(self, id: str) -> str:
        return f"{self.leases}{id}"

    def segment(self, scope: str, name: str) -> str:
        return f"{self.folder}journal/{quoted(scope)}/{name}"

    def base(self, scope: str, name: str) -> str:
        return f"{self.folder}base/{quoted(scope)}/{name}"


def quoted(scope: str) -> str:
    """A scope as one part of a key. The scope of the whole state has no name: `=`."""
    quoted = "".join(each if _PLAIN.match(each) else f"={each.encode().hex()}." for each in scope)
    return quoted or "="

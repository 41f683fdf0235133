"""The Moved manifest that says of a new resource what it was before: as text, to be offered."""

import json
import re

from reconciler.core.model import Address, Resource

_PLAIN = re.compile(r"[A-Za-z0-9/._-]+")
_LONGEST_NAME = 63


def entry(old: Address, new: Resource) -> str:
    """The entry as text, with names as in the file of `new`: beside it, it counts in every environment."""
    there = _in_file(new)
    parts = [there.kind.lower(), there.app, there.name, str(there.ordinal) if there.ordinal else None]
    name = "-".join(part for part in parts if part)[-_LONGEST_NAME:].lstrip("._-")
    return f"apiVersion: reconciler/v1\nkind: Moved\nmetadata: {{name: {name}}}\nspec: {spec(old, new)}\n"


def spec(old: Address | None, new: Resource) -> str:
    """Its `spec`, with the same names. `old`: None where a person has to write it; OLD stands there."""
    there = _in_file(new)
    source = _written(old._replace(app=there.app)) if old is not None else "OLD"
    return f"{{from: {source}, to: {_written(there)}}}"


def _in_file(new: Resource) -> Address:
    return new.in_file._replace(ordinal=new.address.ordinal)


def _written(address: Address) -> str:
    """As YAML, in which a plain `[1]` would end what is within braces."""
    text = str(address)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)

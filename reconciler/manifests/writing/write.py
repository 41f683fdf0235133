"""Writes values as YAML: block style, and quotes only where text would be read as something else.

`compose` reads the written text back to the same values (a property test checks that).
"""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

from reconciler.core.model import Path
from reconciler.manifests.reading.scalars import written

if TYPE_CHECKING:
    from reconciler.manifests.validation.loader import Effective

INDENT = "  "
_LONGEST_KEY = 1000  # characters, also of its escapes: longer ones need a mark of their own

# Text that readers of any version of YAML take for text.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
# Characters written as escapes: those that `refusals.decode` refuses, byte order marks and line breaks.
_ESCAPED = (
    "[^\t\x20-\x7e\xa0-\u2027\u202a-\u202d\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U0010ffff]"  # not compiled here: that takes 3 ms, and few commands write YAML
)


class Commented(NamedTuple):
    """One document. `comments`: lines above the value at a path, () for the document's beginning.

    Those of a missing path are written at the end of the mapping that would hold it.
    `disabled`: the whole document is a comment, with the `---` that it needs once the signs are removed.
    """

    value: Mapping[str, Any]
    comments: Mapping[Path, Sequence[str]] = {}
    disabled: bool = False


def write(documents: Sequence[Commented], *, head: Sequence[str] = (), follows: bool = False) -> str:
    """Return the text of all `documents`, with `head` as comments before the first.

    `follows`: the text is put behind other documents. Disabled documents have to be the last ones.
    Raises ValueError for a lone surrogate, and for values that JSON does not have.
    """
    lines: list[str] = []
    for number, document in enumerate(documents):
        start = [] if number == 0 and not follows and not document.disabled else ["---"]
        opening = list(map(comment, head)) if number == 0 else []
        above = list(map(comment, document.comments.get((), ())))
        body = list(_mapping(document.value, (), document.comments))
        if document.disabled:
            lines += [*opening, *above, *(comment(line) for line in (*start, *body))]
        else:
            lines += [*start, *opening, *above, *body]
    return "".join(f"{line}\n" for line in lines)


def comment(text: str) -> str:
    """Return `text` as one line of comment."""
    return f"# {in_comment(text)}".rstrip()


def in_comment(text: str) -> str:
    """Return `text` with escapes for characters that no manifest may hold."""
    return re.sub(_ESCAPED, _escape, text)


def scalar(value: Any) -> str:
    """Return the scalar `value` on one line. Raises ValueError for other values."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        if math.isnan(value):
            return ".nan"
        if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        mantissa, e, exponent = repr(value).partition("e")
        return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}{e}{exponent}"
    if value is None or isinstance(value, bool | int):
        return written(value)
    raise ValueError(f"a {type(value).__name__} cannot be written")


def _text(value: str) -> str:
    return value if _PLAIN.fullmatch(value) and value.lower() not in _WORDS else quoted(value)


def quoted(value: str) -> str:
    """Return `value` in double quotes. Raises ValueError for a lone surrogate."""
    value.encode()  # refuses a lone surrogate, which no escape of YAML stands for
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n")
    return f'"{re.sub(_ESCAPED, _escape, escaped)}"'


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02X}" if code <= 0xFF else f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def _mapping(value: Mapping[str, Any], path: Path, comments: Mapping[Path, Sequence[str]]) -> Iterator[str]:
    for name, item in value.items():
        yield from map(comment, comments.get((*path, name), ()))
        key = _text(name)
        if len(key) > _LONGEST_KEY:
            yield f"? {key}"
            key = ""
        yield from _entry(f"{key}:", item, (*path, name), comments)
    for missing, texts in comments.items():
        if missing and missing[:-1] == path and missing[-1] not in value:
            yield from map(comment, texts)


def _entry(lead: str, item: Any, path: Path, comments: Mapping[Path, Sequence[str]]) -> Iterator[str]:
    """Yield the lines of `item` behind `lead`, which is a key or the dash of a list."""
    if isinstance(item, Mapping):
        inside = list(_mapping(item, path, comments))
        lead = lead if item else f"{lead} {{}}"
    elif isinstance(item, list | tuple):
        inside = list(_sequence(item, path, comments))
        lead = lead if item else f"{lead} []"
    else:
        inside = []
        lead = f"{lead} {scalar(item)}"
    if lead == "-" and not inside[0].startswith("#"):
        lead = f"- {inside.pop(0)}"
    yield lead
    yield from (f"{INDENT}{line}" for line in inside)


def _sequence(items: Sequence[Any], path: Path, comments: Mapping[Path, Sequence[str]]) -> Iterator[str]:
    for number, item in enumerate(items):
        yield from map(comment, comments.get((*path, number), ()))
        yield from _entry("-", item, (*path, number), comments)


SCHEMA_FILE = "reconcile.schema.json"  # in the folder of reconcile.yaml, and committed with it


def modeline(folder: FilePath, root: FilePath) -> str:
    """Return the comment for a file of `folder`, without its `#`; `root` is the project's root.

    The path of the schema is relative to the folder, as language servers expect. The schema need not
    exist yet: `reconcile schema --out reconcile.schema.json` writes it.
    """
    # Not resolved: the editor does not resolve it either.
    relative = os.path.relpath(root.absolute() / SCHEMA_FILE, folder.absolute())
    return f"yaml-language-server: $schema={FilePath(relative).as_posix()}"


def build(manifests: Sequence["Effective"]) -> str:
    """Return the manifests' documents, in order, below comments that name their files.

    Values that an alias repeats are written out at all places.
    """
    documents = []
    for manifest in manifests:
        comments: dict[Path, Sequence[str]] = {(): [f"from {', '.join(manifest.files)}"]}
        documents.append(Commented(manifest.value, comments))
    return write(documents, follows=True)

"""How many different people gave approvals, by the names and keys that `allowed_signers` brings together."""

import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from reconciler.approvals.ssh import plain_key, signing_key
from reconciler.approvals.statement import Approval

_QUOTED = re.compile(r'"(?:\\"|[^"])*"')
# As ssh-keygen takes a line apart: a quote ends the names, and not what comes behind them.
_NAMES = re.compile(r'[ \t]*([^ \t\r"]*(?:"[^"]*"|[ \t\r]|$))')
_WORD = re.compile(rf"(?:{_QUOTED.pattern}|[^ \t\r\"])+")


def people(approvals: Iterable[Approval], signers: Iterable[str]) -> Sequence[Collection[str]]:
    """The names of each person who gave any. `signers`: the files of allowed signers that count.

    One person are the names of one line, of one pattern and of one key, and all that these bring together.
    A line with `cert-authority` brings nobody together: the authority vouches for each key that it certified.
    """
    given = [(each.statement.principal, plain_key(signing_key(each.signature))) for each in approvals]
    lines = [line for text in signers for line in _lines(text)]
    signed = {name for name, _ in given}
    names = signed.union(*(patterns for patterns, _ in lines))
    of_key: dict[bytes, set[str]] = defaultdict(set)
    for name, key in given:
        of_key[key].add(name)
    for patterns, key in lines:
        of_key[key] |= {name for name in names if any(_matches(name, each) for each in patterns)}
    found: list[set[str]] = []
    for together in of_key.values():
        apart = [each for each in found if not each & together]
        found = [*apart, together.union(*(each for each in found if each & together))]
    return [sorted(each & signed) for each in found if each & signed]


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def _lines(text: str) -> Iterator[tuple[Sequence[str], bytes]]:
    """Patterns of names, and the key, of each line but those of authorities."""
    for line in text.split("\n"):
        names = _NAMES.match(line)
        words = _WORD.findall(line, names.end()) if names and not names[1].startswith("#") else ()
        keys = [(at, key) for at, pair in enumerate(pairwise(words)) if (key := _key(*pair)) is not None]
        if names and keys:
            options = _QUOTED.sub("", " ".join(words[: keys[0][0]])).lower().split(",")
            if "cert-authority" not in options:
                yield names[1].replace('"', "").strip(" \t\r").split(","), keys[0][1]


def _key(kind: str, base64: str) -> bytes | None:
    try:
        key = b64decode(base64)
        return plain_key(key) if key[4:].startswith(kind.encode()) else None
    except ValueError:
        return None

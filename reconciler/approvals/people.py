"""How many different people gave approvals, by the names and keys that `allowed_signers` brings together."""

import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from reconciler.approvals.ssh import plain_key, signing_key
from reconciler.approvals.statement import Approval

_QUOTED = r'"(?:\\"|[^"])*"'
_LINE = re.compile(rf'[ \t]*("[^"]*"|[^ \t#"]\S*)[ \t]+((?:\\"|{_QUOTED}|[^ \t"])+)[ \t]+(.+)')


def people(approvals: Iterable[Approval], signers: Iterable[bytes]) -> Sequence[Collection[str]]:
    """The names of each person who gave any. `signers`: the files of allowed signers that count.

    One person are the names of one line, of one pattern and of one key, and all that these bring together.
    A line with `cert-authority` brings nobody together: the authority vouches for each key that it certified.
    """
    given = [(each.statement.principal, plain_key(signing_key(each.signature))) for each in approvals]
    lines = [line for data in signers for line in _lines(data)]
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


def _lines(data: bytes) -> Iterator[tuple[Sequence[str], bytes]]:
    """Patterns of names, and the key, of each line but those of authorities: as ssh-keygen reads them."""
    for line in data.decode(errors="replace").split("\n"):
        found = _LINE.match(line)
        if found is None:
            continue
        names, options, rest = found.groups()
        key = _key(f"{options} {rest}")
        if key is None:
            flags = re.sub(_QUOTED, "", options).lower().split(",")
            key = _key(rest) if "cert-authority" not in flags else None
        if key is not None:
            yield names.strip('"').split(","), key


def _key(text: str) -> bytes | None:
    """The key that `text` begins with: its type, and its bytes in base64."""
    kind, _, rest = text.replace("\t", " ").partition(" ")
    try:
        key = b64decode(rest.split(None, 1)[0])
        return plain_key(key) if key[4:].startswith(kind.encode()) else None
    except (IndexError, ValueError):
        return None

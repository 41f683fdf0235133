"""How rows of a journal are chained: each is hashed together with the hash before it.

Every backend hashes alike, so that a state keeps its history and its heads when it moves to another one. The
first row of a chain continues from the state's lineage, so that no journal passes for another's.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

_encode = json.JSONEncoder(separators=(",", ":")).encode


def row_hash(previous: str, seq: int, columns: Sequence[Any], data: bytes, scope: str) -> str:
    """SHA-256 in hex over the hash before, the place in the chain and the row; JSON keeps the columns apart.

    `columns` and `data`: what `codec.encode_entry` makes, the data encoded. Rows of the whole state are
    hashed like those of versions that knew no scopes.
    """
    head = _encode([previous, seq, *columns, *filter(None, [scope])])
    return hashlib.sha256(head.encode() + b"\n" + data).hexdigest()


def state_head(lineage: str, heads: Mapping[str, str]) -> str:
    """One digest over the chains of all scopes (`State.heads`), the same in every backend; "" for no state.

    Who has kept it elsewhere can tell that no entry before it was changed or taken away since.
    """
    if not lineage:
        return ""
    return hashlib.sha256(_encode([lineage, *sorted(heads.items())]).encode()).hexdigest()

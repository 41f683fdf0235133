"""States that an older program encrypted: entry by entry and record by record, with tokens for names.

They are read as a whole, by `state rekey` and by the restore of a backup, and are written anew as states are
encrypted now. Any other verb refuses them.
"""

import dataclasses
import json
import re
from collections.abc import Callable

from msgspec.structs import replace

from reconciler.core.model import Address
from reconciler.state.codec import EntryColumns, decode_record
from reconciler.state.contents import Body, Row, StateDump, chained
from reconciler.state.encryption import problems
from reconciler.state.encryption.cipher import Cipher, NotOurs
from reconciler.state.marks import SEALED_NAME

MAGIC = b"reconcile encrypted state\n"  # begins what stands in the place of the key of fingerprints
_TOKEN = re.compile(f"(?:Enc[a-p]{{16}}/)?({SEALED_NAME})")


def is_older(key: bytes) -> bool:
    """Whether this is the key of such a state."""
    return key.startswith(MAGIC)


def opened(contents: StateDump, unwrap: Callable[[bytes], bytes]) -> StateDump:
    """`contents` without its encryption; any other state as it is.

    Raises what `unwrap` raises, and StoreError for what does not open where it stands.
    """
    if not is_older(contents.key):
        return contents
    try:
        keys = json.loads(unwrap(contents.key.removeprefix(MAGIC)))
        if keys["lineage"] != contents.lineage:
            raise NotOurs("its key")
        cipher = Cipher(bytes.fromhex(keys["content"]), contents.lineage)
        return _opened(contents, cipher, bytes.fromhex(keys["fingerprint"]))
    except NotOurs as found:
        raise problems.damaged(str(found)) from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise problems.damaged("a journal entry or a record") from None


def _opened(contents: StateDump, cipher: Cipher, key: bytes) -> StateDump:
    name = _names(cipher)
    entries = ((name(row.scope), _entry(cipher, name, row)) for row in contents.rows)
    rows = tuple(chained(contents.lineage, entries))
    ends = {row.scope: row.hash for row in rows}
    heads = {name(scope): head for scope, head in contents.heads.items()}
    heads = {scope: replace(head, hash=ends.get(scope, head.hash)) for scope, head in heads.items()}
    records = {}
    for sealed, body in contents.records.items():
        address = Address.parse(name(sealed.name))
        applied = decode_record(sealed, body.serial, body.text.encode()).applied
        text = cipher.open_text(applied["enc"], "record", str(address), applied["place"])
        records[address] = Body(body.serial, text)
    return dataclasses.replace(contents, key=key, rows=rows, records=records, heads=heads)


def _entry(cipher: Cipher, name: Callable[[str], str], row: Row) -> EntryColumns:
    run, event, at, address, step, attempt, text = row.columns
    data = json.loads(text)
    if "enc" not in data:  # what a backend noted itself, such as who broke a lock
        return "", event, at, None, "", attempt, _TOKEN.sub(lambda found: name(found[1]), text)
    scope, place, about = name(data["in"]), data["place"], list(map(name, data.get("about", ())))
    if scope != name(row.scope):
        raise NotOurs("a journal entry")
    plain = None if address is None else name(Address.parse(address).name)
    columns = name(run), event, at, plain, name(step), attempt
    return *columns, cipher.open_text(data["enc"], "entry", scope, place, list(columns), about)


def _names(cipher: Cipher) -> Callable[[str], str]:
    return lambda token: cipher.name(token) if token else ""

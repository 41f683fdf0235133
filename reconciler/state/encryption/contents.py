"""Whole states, sealed and opened, with the chains that follow from it. Pure.

A state that is sealed and opened again has the chains that it had, hash for hash.
"""

import dataclasses
from collections.abc import Callable

from msgspec.structs import replace

from reconciler.core.model import Address, StateRecord
from reconciler.state.codec import EntryColumns, decode_entry, decode_record, encode_entry, encode_record
from reconciler.state.contents import Body, Contents, Row, chained
from reconciler.state.encryption.cipher import Cipher, NotOurs
from reconciler.state.encryption.sealing import Order, open_entry, open_record, seal_entry, seal_record
from reconciler.state.store import JournalEntry


def sealed(contents: Contents, cipher: Cipher, key: bytes) -> Contents:
    """`key`: what the backend is to keep as the state's key."""

    def row(row: Row) -> EntryColumns:
        entry, text = _decoded(row)
        return encode_entry(seal_entry(cipher, entry, text, row.scope, (0, row.seq, 0)))

    def record(address: Address, body: Body) -> tuple[StateRecord, str]:
        record = decode_record(address, body.serial, body.text.encode())
        changed = seal_record(cipher, record, body.text, (0, body.serial, 0))
        return changed, encode_record(changed)

    return rewritten(contents, key, cipher.token, row, record)


def opened(contents: Contents, cipher: Cipher, key: bytes) -> Contents:
    """`key`: the fingerprint key. Raises NotOurs for what is not where it was sealed for."""
    order = Order()

    def row(row: Row) -> EntryColumns:
        found = open_entry(cipher, _decoded(row)[0])
        order.follow(cipher.name(row.scope), found)
        return (*encode_entry(replace(found.entry, data={}))[:-1], found.text)

    def record(address: Address, body: Body) -> tuple[StateRecord, str]:
        record, text, place = open_record(cipher, decode_record(address, body.serial, body.text.encode()))
        order.require(record, place)
        return record, text

    return rewritten(contents, key, cipher.name, row, record)


def _decoded(row: Row) -> tuple[JournalEntry, str]:
    """The entry, and its data as they are encoded. Raises NotOurs for what was never written."""
    run, event, at, address, step, attempt, text = row.columns
    try:
        return decode_entry(run, event, at, address, step, attempt, text.encode()), text
    except ValueError as error:
        raise NotOurs("a journal entry") from error


def rewritten(
    contents: Contents,
    key: bytes,
    name: Callable[[str], str],
    columns_of: Callable[[Row], EntryColumns],
    record_of: Callable[[Address, Body], tuple[StateRecord, str]],
) -> Contents:
    """`contents` with each name, row and record as the functions say, and chains that fit them."""
    rows = chained(contents.lineage, ((name(row.scope), columns_of(row)) for row in contents.rows))
    ends = {row.scope: row.hash for row in rows}
    records = dict[Address, Body]()
    for address, body in contents.records.items():
        record, text = record_of(address, body)
        records[record.address] = Body(body.serial, text)
    heads = {
        name(scope): replace(head, hash=ends.get(name(scope), head.hash))
        for scope, head in contents.heads.items()
    }
    return dataclasses.replace(contents, key=key, rows=rows, records=records, heads=heads)

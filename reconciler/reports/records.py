"""Pages about the records of a state, and about verbs that change a state."""

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from reconciler.core.advice import RunOptions, command, spell
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Address, Owed, StateRecord, owed_work
from reconciler.reports.escape import in_json, page_text
from reconciler.reports.fragments import DiagnosticJson
from reconciler.reports.report import Page, advise
from reconciler.state.chain import state_head
from reconciler.state.store import JournalEntry, Restored, State

_PLAIN = re.compile(r"sqlite:[A-Za-z0-9_./-]+")  # text that YAML reads as it stands


def record_document(record: StateRecord, owed: Sequence[Owed] | None = None) -> dict[str, Any]:
    """All that is recorded of one object, as JSON. `owed`: with all its dates; None: with those recorded."""
    return {
        "address": str(record.address),
        "id": record.id,
        "scope": record.scope,
        "applied": dict(record.applied),
        "lifecycle": asdict(record.lifecycle),
        "created_at": record.created_at.isoformat(),
        "source": record.source,
        "inferred": record.inferred,
        "owed": [
            {"work": work.work, "because": work.because, "certainty": work.certainty}
            | {name: at.isoformat() for name in ("earliest", "forced") if (at := getattr(work, name))}
            for work in (owed_work({record.address: record}) if owed is None else owed)
        ],
        "serial": record.serial,
    }


def records_page(state: State, doubts: Sequence[Diagnostic], run: RunOptions) -> Page:
    """One line a record: address, id, owed work. `doubts`: about records and untracked objects."""
    records, lines = state.records, []
    for address, record in sorted(records.items(), key=lambda item: str(item[0])):
        owed = "".join(f"  owes {owed.work}" for owed in record.obligations)
        lines.append(f"{address}  {record.id}{'  inferred' if record.inferred else ''}{owed}")
    head, nothing = state_head(state.lineage, state.heads), "nothing is recorded yet\n"
    return Page(
        document={
            "records": [record_document(record) for record in records.values()],
            "unclaimed": [_unclaimed(entry) for entry in state.unclaimed],
            "platform": state.platform or None,
            "head": head,
            "diagnostics": DiagnosticJson.all_of(advise(doubts, run)),
        },
        text=page_text(lines),
        notices=f"{'' if records else nothing}State head: {head}\n",
        diagnostics=tuple(doubts),
    )


def _unclaimed(entry: JournalEntry) -> dict[str, str]:
    return {
        "id": entry.data["unclaimed"],
        "address": str(entry.address) if entry.address is not None else "",
        "because": entry.data.get("because", ""),
        "at": entry.at.isoformat(),
    }


def pin_lines(place: str, lineage: str, environment: str) -> str:
    """The lines for reconcile.yaml that pin the state at `place`, so that no other one is used."""
    url = place if _PLAIN.fullmatch(place) else in_json(place)
    lines = [f"state: {{url: {url}, lineage: {lineage}}}"]
    if environment:
        lines = ["environments:", f"  {environment}:", f"    {lines[0]}"]
    why = "pin it in reconcile.yaml, so that no other state is used by mistake:"
    return page_text([why, *(f"  {line}" for line in lines)])


def record_page(record: StateRecord) -> Page:
    """The record of one address."""
    found = record_document(record)
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}
    return Page(document={"record": found}, text=page_text(f"{name}: {text}" for name, text in texts.items()))


def moved_page(source: Address, moved: Sequence[StateRecord]) -> Page:
    """`moved`: the records after the move; several where a whole `count` moved."""
    lines = []
    for record in moved:
        was = source._replace(ordinal=record.address.ordinal) if len(moved) > 1 else source
        lines.append(f"{was} ({record.id}) is now recorded as {record.address}")
    records = [record_document(record) for record in moved]
    return Page(
        document={"from": str(source), "record": records[0], "records": records}, text=page_text(lines)
    )


def restored_page(done: Restored, run: RunOptions) -> Page:
    """The source of a restored state, and everything that a person must know or do."""
    plan, listed = command("plan"), command("state", "list")
    made = f" from {done.taken_at:%Y-%m-%d %H:%M:%S} UTC" if done.taken_at is not None else ""
    lines = [f"restored from {done.backup}{made}"] if done.backup else []
    if done.aside:
        lines += [
            f"the files that it replaced are kept as {done.aside}",
            f"salvaged: {done.salvaged} newer journal rows",
        ]
    lines += [
        f"unknown again: {address}; `{plan.with_options(run)}` says how it is settled"
        for address in done.reopened
    ]
    if done.key != "kept":
        effect = "; every secret is set again by the next apply" if done.key == "new" else ""
        lines.append(f"fingerprint key: {done.key}{effect}")
    lost = spell(done.lost, (listed,), run)
    lines += [f"lost: {lost}"] if lost else []
    document = {
        "backup": done.backup,
        "taken_at": done.taken_at.isoformat() if done.taken_at is not None else None,
        "aside": done.aside or None,
        "salvaged": done.salvaged,
        "reopened": [str(address) for address in done.reopened],
        "key": done.key,
        "lost": lost,
    }
    return Page(document=document, text=page_text(lines))

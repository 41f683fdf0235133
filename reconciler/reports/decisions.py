"""What a person decided, or a program noted, as the journal has it: in words."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from reconciler.core.model import Address
from reconciler.core.plural import counted
from reconciler.state.runs import Decision

_ATTRIBUTION = ("by", "url", "reason")
# By a key of the data that no other decision has.
_WORDS: Mapping[str, Callable[[Mapping[str, Any], Address | None], str]] = {
    "salvaged": lambda data, address: f"the state was restored from {data.get('restored')}",
    "new_key": lambda data, address: "the state got a new fingerprint key",
    "rekeyed": lambda data, address: f"the state was {_encrypted(data)}",
    "landed": lambda data, address: f"the call for {address} made nothing",
    "to": lambda data, address: f"{data.get('from')} ({data.get('id')}) is recorded as {data['to']}",
    "confirmed": lambda data, address: f"{address} is {data.get('id')}",
    "restarted": lambda data, address: f"the restart owed for {address} is done",
    "dismissed": lambda data, address: f"{_listed(data['dismissed'])} may exist beside {address}",
    "accepted": lambda data, address: f"the changes of {address} ({data['accepted']}) are as they should be",
    "forget": lambda data, address: f"the record of {address} ({data['forget']}) was dropped",
    "claimed": lambda data, address: f"the untracked object {data['claimed']} is not reported any more",
    "unclaimed": lambda data, address: f"{data['unclaimed']} has no record: {data.get('because')}",
    "moved_from": lambda data, address: f"{data['moved_from']} is recorded as {address} in another scope",
    "moved_away": lambda data, address: f"{data['moved_away']} has moved to {data.get('moved_to')}",
    "platform": lambda data, address: f"the state is about the platform at {data['platform']}",
    "unlock": lambda data, address: (
        f"{data['unlock'] or 'the whole state'} was unlocked, held by {data.get('holder')}"
    ),
    "environment": lambda data, address: f"the state is that of environment {data['environment']}",
    "dropped": lambda data, address: f"{data['dropped']} was dropped",
    "remembered": lambda data, address: (
        f"the state remembers {_REMEMBERED.get(data['remembered'], data['remembered'])}"
    ),
    "id": lambda data, address: f"{address} is {data['id']}",
}
# By the name under which a state remembers it.
_REMEMBERED: Mapping[str, str] = {
    "made": "when it was made",
    "older": "which older objects are known",
    "approvals": "the approval rules, signers and objectives in force",
    "not-created": "which creates a person said did not happen",
}


def decided(decision: Decision) -> str:
    """Without who and why. What a newer program wrote is shown as it stands in the journal."""
    data = decision.data
    for name, words in _WORDS.items():
        if name in data:
            return f"{words(data, decision.address)}{', by force' if data.get('forced') else ''}"
    return json.dumps({name: value for name, value in data.items() if name not in _ATTRIBUTION})


def _encrypted(data: Mapping[str, Any]) -> str:
    if not data["rekeyed"]:
        return "decrypted"
    return f"encrypted to {counted(data['rekeyed'], 'recipient')}, with key {data.get('generation')}"


def _listed(ids: Any) -> str:
    return ", ".join(map(str, ids)) if isinstance(ids, list) else str(ids)

"""Digests of what a plan has seen, so that apply can tell whether an object has changed since.

Only managed and guard fields go in: hourly figures and other people's fields do not matter.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.core.lookup import Lookup
from reconciler.core.steps import Expectation


def digest_object(live: Any, fields: Sequence[str]) -> str:
    """Of one object's fields; a field that the platform did not send counts as null."""
    return _digest({name: getattr(live, name, None) for name in fields})


def digest_absence(match: Mapping[str, Any], shown: Lookup) -> str:
    """Of the ids of all present objects equal in `match`: a create expects no other of them to appear."""
    return _digest(sorted(item.id for item in shown.possible(match) if item.present))


def digest_now(expectation: Expectation, shown: Lookup) -> str | None:
    """The digest of what `expectation` is about, as `shown` now; None when its object is not there."""
    if expectation.id is None:
        return digest_absence(expectation.match, shown)
    live = shown.by_id.get(expectation.id)
    return None if live is None else digest_object(live, expectation.fields)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    return value.model_dump()

"""Answers of the platform: their fingerprints, and the reads that failed.

An apply compares fingerprints to tell whether an object has changed since the plan. Only managed and guard
fields go in: hourly figures and other people's fields do not matter.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, as_warning, error, has_errors
from reconciler.core.lookup import Lookup
from reconciler.core.model import Address, Observation
from reconciler.core.steps import Expectation
from reconciler.core.words import counted


def digest_object(live: Any, fields: Sequence[str]) -> str:
    """The digest of one object's fields. A field that the platform did not send counts as null."""
    return _digest({name: getattr(live, name, None) for name in fields})


def digest_absence(match: Mapping[str, Any], shown: Lookup) -> str:
    """The digest of the ids of all present objects equal in `match`: a create expects no other to appear."""
    return _digest(sorted(item.id for item in shown.possible(match) if item.present))


def digest_now(expectation: Expectation, shown: Lookup) -> str | None:
    """The digest of what `expectation` is about, as `shown` now; None when its object is not there."""
    if expectation.id is None:
        return digest_absence(expectation.match, shown)
    live = shown.by_id.get(expectation.id)
    return None if live is None else digest_object(live, expectation.fields)


def _digest(value: Any) -> str:
    """A digest of JSON values, in 32 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """A model of the wire as JSON values."""
    return value.model_dump()


class FailedReads:
    """Counts the reads of one command, and reports those that failed: once for each cause."""

    def __init__(self) -> None:
        self._reads = 0
        self._failed: Counter[str] = Counter()
        self._problems: dict[str, list[Diagnostic]] = defaultdict(list)
        self._addresses: dict[str, set[str]] = defaultdict(set)

    def answered(self, observation: Observation) -> None:
        """Count an answer, or its absence."""
        self._reads += 1
        if observation.cause:
            self._failed[observation.cause] += 1

    def add(self, cause: str, problem: Diagnostic, addresses: Iterable[Address]) -> None:
        """`problem`: what is said of `addresses` where nothing else fails for this `cause` ("": alone)."""
        about = tuple(map(str, addresses))
        self._problems[cause].append(replace(problem, addresses=about))
        self._addresses[cause].update(about)

    def diagnostics(self) -> Iterator[Diagnostic]:
        """The problems, in the order of their places. Those that fail alone come first."""
        for cause, reported in sorted(self._problems.items()):
            problems = sorted(reported, key=_place)
            addresses = tuple(sorted(self._addresses[cause]))
            if not cause or len(addresses) == 1:
                yield from problems
                continue
            of = f"{self._failed[cause]} of {counted(self._reads, 'read')}"
            problem = error(
                "unreadable",
                f"{cause} to {of}: {counted(len(addresses), 'object')} cannot be read",
                notes=(f"the first one: {problems[0].message}",),
                help="nothing was changed; run again when it answers",
            )
            yield replace(problem if has_errors(problems) else as_warning(problem), addresses=addresses)


def _place(problem: Diagnostic) -> tuple[str, int, str]:
    """The order of problems: by file, line and text."""
    span = problem.span
    return (span.file, span.line, problem.message) if span is not None else ("", 0, problem.message)

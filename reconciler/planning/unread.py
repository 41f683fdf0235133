"""Answers that are missing: what fails for one cause is told once, not once for each address."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, as_warning, error, has_errors
from reconciler.core.model import Address, Observation
from reconciler.core.plural import counted


class Unread:
    """What the reads of one command came to."""

    def __init__(self) -> None:
        self._reads = 0
        self._failed: Counter[str] = Counter()
        self._told: dict[str, list[Diagnostic]] = defaultdict(list)
        self._addresses: dict[str, set[str]] = defaultdict(set)

    def answered(self, observation: Observation) -> None:
        self._reads += 1
        if observation.cause:
            self._failed[observation.cause] += 1

    def add(self, cause: str, problem: Diagnostic, addresses: Iterable[Address]) -> None:
        """`problem`: what is said of `addresses` where nothing else fails for this `cause` ("": alone)."""
        self._told[cause].append(problem)
        self._addresses[cause].update(map(str, addresses))

    def diagnostics(self) -> Iterator[Diagnostic]:
        """In the order of their places: answers come in no certain one. What fails alone comes first."""
        for cause, told in sorted(self._told.items()):
            problems = sorted(told, key=_place)
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
    span = problem.span
    return (span.file, span.line, problem.message) if span is not None else ("", 0, problem.message)

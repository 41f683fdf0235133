"""Problems as data: what a person must know about a manifest, a plan or a run, and where it stands."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from reconciler.core.advice import Command
from reconciler.core.saved import Saved

RULES_LOOSENED = "rules-loosened"
REFUSED_BY_GUARDRAIL = "refused-by-guardrail"
GUARDRAIL_UNDECIDED = "guardrail-undecided"  # a rule without a value: what it judges is refused, too
GUARDRAIL_ADVISED = "guardrail-advised"  # by a rule that refuses nothing
IN_FLIGHT = "in-flight"  # the code for a call that a living process waits for: nobody has to decide anything
APPROVAL_NEEDED = (
    "approval-needed"  # of a rule that asks people; a plan tells it, an apply without is refused
)
OWED_OVERDUE = "owed-overdue"  # of work that should have been done by now
DRILL_FAILED = "drill-failed"
DRILL_OVERDUE = "drill-overdue"
RECOVERY_SLOWER = "recovery-slower"
NOT_RECOVERABLE = "not-recoverable"  # what no drill proves: a plan tells it, and who signs one, signs that
OF_DRILLS = frozenset({DRILL_FAILED, DRILL_OVERDUE, RECOVERY_SLOWER})
FOUND_BY_DRIFT = OF_DRILLS | {REFUSED_BY_GUARDRAIL, GUARDRAIL_UNDECIDED, OWED_OVERDUE}  # its exit is 2
UNKNOWN_OUTCOME = "unknown-outcome"  # the code of a question that only a person can answer: exit 3


class Severity(StrEnum):
    """Errors refuse something; warnings and remarks do not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Span(NamedTuple):
    """One stretch of text in a file.

    Lines and columns count from 1, columns in characters; `end_column` is the
    first column after the text, on the same line. `private`: the line may hold a secret, so no report
    prints it, and no message repeats a value that stands there.
    """

    file: str
    line: int
    column: int
    end_column: int
    private: bool = False

    @property
    def width(self) -> int:
        return max(1, self.end_column - self.column)

    @property
    def place(self) -> str:
        """The place as `FILE:LINE:COLUMN`."""
        return f"{self.file}:{self.line}:{self.column}"


class Diagnostic(Saved, frozen=True):
    """One problem. `code` is stable and kebab-case; `message` is lower case without a full stop.

    `label` is the text next to the caret, `help` says what to do; `advice`: the commands in these texts.
    `addresses`: all resources that the problem affects.
    `shown_to`: how many characters of the line may be shown, as what follows may be a secret; 0: all.
    """

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[str, ...] = ()
    help: str = ""
    advice: tuple[Command, ...] = ()
    addresses: tuple[str, ...] = ()
    shown_to: int = 0

    @property
    def hidden(self) -> bool:
        """Whether the source line is not to be shown."""
        return self.span is not None and self.span.private


def hide(problem: Diagnostic) -> Diagnostic:
    """`problem` at the same place, which may hold a secret: no report prints its line."""
    return replace(problem, span=problem.span._replace(private=True)) if problem.span is not None else problem


def show(problem: Diagnostic) -> Diagnostic:
    """`problem` at the same place, which is known to hold no secret."""
    return (
        replace(problem, span=problem.span._replace(private=False)) if problem.span is not None else problem
    )


def error(
    code: str,
    message: str,
    span: Span | None = None,
    *,
    label: str = "",
    notes: tuple[str, ...] = (),
    help: str = "",
    advice: tuple[Command, ...] = (),
    about: Iterable[object] = (),
) -> Diagnostic:
    """`about`: the addresses that it affects."""
    addresses = tuple(map(str, about))
    return Diagnostic(code, Severity.ERROR, message, span, label, notes, help, advice, addresses)


def warning(
    code: str,
    message: str,
    span: Span | None = None,
    *,
    label: str = "",
    notes: tuple[str, ...] = (),
    help: str = "",
    advice: tuple[Command, ...] = (),
    about: Iterable[object] = (),
) -> Diagnostic:
    addresses = tuple(map(str, about))
    return Diagnostic(code, Severity.WARNING, message, span, label, notes, help, advice, addresses)


_HOLD_ONE = ("renamed", "secret-source")  # refused is what they are about, and what needs that


def refuse_all(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether an error stops the whole plan, and not only the addresses that it is about."""
    return has_errors(item for item in diagnostics if item.code not in _HOLD_ONE)


def as_warning(problem: Diagnostic) -> Diagnostic:
    """`problem`, where it refuses nothing."""
    return replace(problem, severity=Severity.WARNING)


def addresses_of(code: str, problems: Iterable[Diagnostic]) -> set[str]:
    """The resources that the problems with this code affect."""
    return {address for problem in problems if problem.code == code for address in problem.addresses}


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether any of `diagnostics` is an error."""
    return any(item.severity is Severity.ERROR for item in diagnostics)

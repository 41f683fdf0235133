"""What a rehearsal found, for people and for programs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reconciler.core.durations import in_words
from reconciler.core.plural import counted
from reconciler.reports.look import END_TONES, Look, Tone
from reconciler.reports.shown import owed_words

if TYPE_CHECKING:  # few reports have one
    from reconciler.rehearsal.matrix import Cell, End, Rehearsal

WORDS: "Mapping[End, str]" = {
    "converged": "converges",
    "pending": "stays pending after three more applies",
    "decision": "a person must decide",
    "failed": "fails",
}
_ENDS = tuple(WORDS)


_COUNTED: "Mapping[End, str]" = {
    "converged": "converge",
    "pending": "stay pending",
    "decision": "need a decision",
    "failed": "fail",
}


ASSUMED = "taken for granted, as the API document leaves it open"


def verdict(rehearsal: "Rehearsal") -> str:
    """In one line, how the clean run and those with a fault end."""
    clean = rehearsal.clean
    if not rehearsal.of:
        return "Nothing to rehearse: the plan sends no call."
    after = (
        f"in {in_words(clean.duration_s)}"
        if clean.end == "converged"
        else f"({clean.error or clean.question})"
    )
    first = f"Rehearsed on a twin of the platform: a clean run {WORDS[clean.end]} {after}"
    struck = rehearsal.cells[1:]
    ends = Counter(cell.end for cell in struck)
    parts = [f"{ends[end]} {word}" for end, word in _COUNTED.items() if ends[end]]
    calls = counted(len(rehearsal.steps), "call")
    of = f" (a sample of {rehearsal.of})" if rehearsal.of > len(rehearsal.steps) else ""
    return f"{first}. With faults in {calls}{of}: {', '.join(parts)}."


def lines(rehearsal: "Rehearsal", look: Look) -> list[str]:
    """For a person: of each step what does not converge by itself, with the question or the error."""
    found = [look.line(0, (verdict(rehearsal), Tone.STRONG))]
    found += [look.line(2, ("differs:", Tone.LOSS), f" {each}") for each in rehearsal.differences]
    found += [
        look.line(2, ("not rehearsed:", Tone.PAUSE), f" {each.address}: {each.why}")
        for each in rehearsal.unrehearsed
    ]
    calm = []
    for step in rehearsal.steps:
        cells = rehearsal.of_step(step)
        if all(cell.end == "converged" and not cell.owed for cell in cells):
            calm.append(step)
            continue
        found.append(look.line(2, (step, Tone.STRONG)))
        for (end, said, works), faults in groups(cells).items():
            found.append(look.line(6, (f"{WORDS[end]}:", END_TONES[end]), f" {', '.join(faults)}"))
            found += [look.line(10, said)] if said else []
            found += [look.line(10, ("owed:", Tone.PAUSE), f" {work}") for work in works]
    if calm:
        found.append(look.line(2, f"converge with every fault: {', '.join(calm)}"))
    if rehearsal.assumptions:
        found.append(look.line(2, f"{ASSUMED}:"))
        found += [look.line(6, each.says) for each in rehearsal.assumptions]
    return found


def ended(step: str, end: "End") -> str:
    """`step`: "" for the clean run."""
    between = ":" if end == "decision" else ""
    return f"{step or 'a clean run'}{between} {WORDS[end]}"


def groups(cells: "Sequence[Cell]") -> "Mapping[tuple[End, str, tuple[str, ...]], Sequence[str]]":
    """The faults of one step by how they end, what is asked or wrong, and what is owed; the worst first."""
    found: dict[tuple[End, str, tuple[str, ...]], list[str]] = {}
    for cell in sorted(cells, key=lambda cell: _ENDS.index(cell.end), reverse=True):
        found.setdefault((cell.end, cell.question or cell.error, owed(cell)), []).append(cell.fault)
    return found


def owed(cell: "Cell") -> tuple[str, ...]:
    return tuple(f"{each.address}: {owed_words(each.work, each.certainty)}" for each in cell.owed)

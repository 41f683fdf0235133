"""What a rehearsal found: one cell for each call and fault, and where the twin differs from the plan."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal

from reconciler.core.model import Address, Owed
from reconciler.core.saved import Saved

NONE = "none"
# What a call suffers, in the order of reports.
CALL_FAULTS = ("lost_before", "lost_after", "error_after", "slow", "refused_412", "limited_429", "killed")
FAULTS = (NONE, *CALL_FAULTS)
End = Literal["converged", "pending", "decision", "failed"]


class Cell(Saved, frozen=True):
    """What a run ends in, with the applies after it, when the call of `step` suffers `fault`.

    `step`: "" for the clean run. `question`: what a person must decide; `error`: why it failed.
    `duration_s`: how long all runs took that had something to do, by the platform's time.
    """

    step: str
    fault: str
    end: End
    owed: tuple[Owed, ...] = ()
    question: str = ""
    error: str = ""
    duration_s: float = 0.0


class Unrehearsed(Saved, frozen=True):
    """What of a plan has no twin, and why."""

    address: Address
    why: str


class Assumption(Saved, frozen=True):
    """What the API document leaves open and the ends rest on. `name`: of the sandbox's switch for it."""

    name: str
    says: str


class Rehearsal(Saved, frozen=True):
    """`steps`: those whose calls were struck, of `of` that the clean run sent. `cells`: the clean run first.

    `differences`: between what the plan says and what the clean run did, in words.
    """

    steps: tuple[str, ...]
    of: int
    cells: tuple[Cell, ...]
    differences: tuple[str, ...] = ()
    unrehearsed: tuple[Unrehearsed, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def clean(self) -> Cell:
        return self.cells[0]

    @property
    def is_as_planned(self) -> bool:
        """Whether a clean run does all that the plan says, and nothing else."""
        return not self.differences and self.clean.end == "converged"

    def of_step(self, step: str) -> Sequence[Cell]:
        return [cell for cell in self.cells if cell.step == step]

    @property
    def digest(self) -> str:
        """SHA-256 as 64 hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def text(self) -> str:
        """What the digest is of, as JSON: how each run ends, what is owed then, and what that rests on.

        Not durations, nor wording: questions name ids and moments of the twin, which differ each time.
        """
        signed: dict[str, Any] = {
            "steps": self.steps,
            "of": self.of,
            "cells": [
                [cell.step, cell.fault, cell.end] + [owed.to_json() for owed in cell.owed]
                for cell in self.cells
            ],
            "differences": self.differences,
            "unrehearsed": [[str(each.address), each.why] for each in self.unrehearsed],
            "assumptions": [[each.name, each.says] for each in self.assumptions],
        }
        return json.dumps(signed, sort_keys=True, separators=(",", ":"))

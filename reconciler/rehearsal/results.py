"""The results of rehearsals and forecasts. A rehearsal has one cell for each call and fault."""

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from reconciler.core.model import Address, Owed
from reconciler.core.saved import Saved

NONE = "none"
# The faults of a call, in the order of reports.
CALL_FAULTS = ("lost_before", "lost_after", "error_after", "slow", "refused_412", "limited_429", "killed")
FAULTS = (NONE, *CALL_FAULTS)
End = Literal["converged", "pending", "decision", "failed"]


class Cell(Saved, frozen=True):
    """The end of a run, and of the applies after it, when the first call of `step` suffers `fault`.

    `step`: "" for the clean run. `question`: for a person to decide. `error`: the reason of a failure.
    `duration_s`: of all runs that had something to do, by the platform's clock.
    """

    step: str
    fault: str
    end: End
    owed: tuple[Owed, ...] = ()
    question: str = ""
    error: str = ""
    duration_s: float = 0.0


class Unrehearsed(Saved, frozen=True):
    """A resource of the plan that has no twin, and the reason."""

    address: Address
    why: str


class Assumption(Saved, frozen=True):
    """Behaviour that the API document leaves open and the ends rest on. `name`: of the sandbox's switch."""

    name: str
    says: str


class Rehearsal(Saved, frozen=True):
    """`steps`: those whose calls met faults, of `of` that the clean run sent. `cells`: the clean run first.

    `differences`: between the plan and the clean run, in words.
    """

    steps: tuple[str, ...]
    of: int
    cells: tuple[Cell, ...]
    differences: tuple[str, ...] = ()
    unrehearsed: tuple[Unrehearsed, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def clean(self) -> Cell:
        """The run without a fault."""
        return self.cells[0]

    @property
    def is_as_planned(self) -> bool:
        """Whether the clean run does everything in the plan, and nothing else."""
        return not self.differences and self.clean.end == "converged"

    def of_step(self, step: str) -> Sequence[Cell]:
        """The cells of one step, in the order of the faults."""
        return [cell for cell in self.cells if cell.step == step]

    @property
    def digest(self) -> str:
        """SHA-256 as 64 hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def text(self) -> str:
        """The JSON that the digest is made of: the end of each run, owed work, and assumptions.

        Durations and wording are left out: questions name ids and moments of the twin, which differ each
        time.
        """
        signed: dict[str, Any] = {
            "steps": self.steps,
            "of": self.of,
            "cells": [
                [cell.step, cell.fault, cell.end] + [owed.to_json() for owed in cell.owed]
                for cell in self.cells
            ],
            "differences": self.differences,
            "unrehearsed": [[str(left_out.address), left_out.why] for left_out in self.unrehearsed],
            "assumptions": [[assumed.name, assumed.says] for assumed in self.assumptions],
        }
        return json.dumps(signed, sort_keys=True, separators=(",", ":"))


class Item(Struct, frozen=True):
    """One event of a forecast. `when`: its moment; None where nobody can tell."""

    address: Address
    what: str
    when: datetime | None


class Forecast(Struct, frozen=True):
    """`items`: by their time; those without one last. `after_apply`: the plan is carried out first."""

    at: datetime
    items: tuple[Item, ...]
    after_apply: bool = False


def by_time(item: Item) -> tuple[bool, float, str, str]:
    """The sort key of `Forecast.items`."""
    at = item.when.timestamp() if item.when is not None else 0.0
    return item.when is None, at, str(item.address), item.what

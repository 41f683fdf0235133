"""Plans to test with: those of all cases, and one case at a time by name."""

import tempfile
from functools import cache
from pathlib import Path

from reconciler.core.steps import Plan, Step
from tests.kinds.case import case_name, find_cases, play, read_case


@cache
def plan_of(name: str) -> Plan:
    """The plan of the case `name`, such as "kinds/volume/create_with_only_a_name"."""
    path = next(path for path in find_cases() if case_name(path) == name)
    with tempfile.TemporaryDirectory() as folder:
        plan = play(read_case(path), Path(folder)).plan
    assert plan is not None
    return plan


def only_step(name: str) -> Step:
    (step,) = plan_of(name).steps
    return step

"""The sandbox holds to its own description; the full run is `python -m tests.sandbox.fuzz`."""

import pytest

from tests.sandbox.fuzz import PROFILES, fuzz


@pytest.mark.parametrize("profile", PROFILES)
def test_no_generated_case_fails_and_nearly_all_operations_are_reached(profile: str) -> None:
    run = fuzz(profile, 1, 2)
    assert run.code == 0, run.report
    assert run.cases > 400, run.report
    # A machine may be stopped already when its turn comes; the full run reaches all of them.
    assert run.operations - run.reached <= {
        ("POST", f"/v1/apps/{{app_name}}/machines/{{machine_id}}/{verb}") for verb in ("suspend", "restart")
    }


def test_a_defect_is_found() -> None:
    run = fuzz("documented", 1, 1, "--switch", "error_text=message", phases="examples")
    assert run.code != 0
    assert '"error" is a required property' in run.report

"""The sandbox holds to its own description; the full run is `python -m tests.sandbox.fuzz`."""

from tests.sandbox.fuzz import fuzz


def test_no_generated_case_fails_and_nearly_all_operations_are_reached() -> None:
    run = fuzz("extended", 1, 2)
    assert run.code == 0, run.report
    assert run.cases > 400, run.report
    # The machine is stopped when their turn comes, or has no lease; it takes more cases to meet another one.
    machine = "/v1/apps/{app_name}/machines/{machine_id}"
    rare = {("POST", f"{machine}/{verb}") for verb in ("suspend", "restart")} | {("GET", f"{machine}/lease")}
    assert run.operations - run.reached <= rare


def test_no_body_that_the_description_allows_is_refused_by_an_object_that_exists() -> None:
    run = fuzz("documented", 1, 2, pinned=True)
    assert run.code == 0, run.report
    assert run.cases > 400, run.report


def test_the_strict_sandbox_describes_what_it_refuses() -> None:
    run = fuzz("documented", 1, 1, "--strict", phases="coverage", pinned=True)
    assert run.code == 0, run.report


def test_a_defect_is_found() -> None:
    run = fuzz("documented", 1, 1, "--switch", "error_text=message", phases="examples")
    assert run.code != 0
    assert '"error" is a required property' in run.report

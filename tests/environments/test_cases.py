"""Projects with an environment: what is reported or built of `cases/NAME.txt`, to the letter."""

from pathlib import Path

import pytest

from reconciler.core.diagnostics import has_errors
from reconciler.manifests.load import load
from tests.environments.case import Case, build_of, load_prod, read_case, report_of, write_project

CASES = sorted(Path(__file__).parent.joinpath("cases").glob("*.txt"))


@pytest.fixture(params=CASES, ids=lambda case: case.stem)
def case(request: pytest.FixtureRequest) -> Case:
    return read_case(request.param)


def test_an_environment_is_reported_and_built_as_recorded(case: Case, tmp_path: Path) -> None:
    loaded = load_prod(write_project(tmp_path, case.files))
    assert report_of(tmp_path, loaded) == case.report
    if not has_errors(loaded.diagnostics):
        assert build_of(loaded) == case.build


def test_no_report_repeats_what_a_secret_may_hold(case: Case) -> None:
    assert "hunter2" not in case.report


def test_what_is_built_is_valid_by_itself_and_means_the_same(case: Case, tmp_path: Path) -> None:
    if not case.build:
        return
    loaded = load_prod(write_project(tmp_path, case.files))
    again = load(["-"], root=tmp_path, stdin=case.build.encode, keep=True)
    assert again.diagnostics == ()
    assert [each.value for each in again.effective] == [each.value for each in loaded.effective]
    assert [(each.address, each.spec) for each in again.resources] == [
        (each.address, each.spec) for each in loaded.resources
    ]

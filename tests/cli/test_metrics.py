"""`--report openmetrics=FILE`: the numbers of one run, by the names that a controller gives them."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.harness import Project, Sandbox, volume

pytestmark = pytest.mark.slow

DAILY = (
    "---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: daily}\n"
    "spec: {selector: {}, snapshot_max_age_h: 26}\n"
)


def numbers(file: Path, name: str) -> dict[tuple[str, ...], float]:
    """The samples called `reconciler_…` in `file`, by the values of their labels but the environment."""
    found = {}
    for family in text_string_to_metric_families(file.read_text(encoding="utf-8")):
        for sample in family.samples:
            if sample.name == f"reconciler_{name}":
                assert sample.labels.pop("environment") == "base"
                found[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def test_each_run_says_what_it_saw_of_each_scope(project: Project, sandbox: Sandbox, app: str) -> None:
    file = project.root / "shop.prom"
    report = ("--report", f"openmetrics={file}")
    project.write(volume(app) + DAILY)
    project.run("plan", *report)
    assert numbers(file, "scope_status") == {(app, "changes"): 1}
    project.run("apply", "--auto-approve", *report)
    assert numbers(file, "scope_status") == {(app, "in-sync"): 1}
    assert numbers(file, "calls_total") == {("done",): 1}
    assert numbers(file, "scope_last_apply_timestamp_seconds").keys() == {(app,)}
    sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=20)
    project.run("drift", *report, code=2)
    assert numbers(file, "scope_status") == {(app, "drifted"): 1}
    assert numbers(file, "scope_last_success_timestamp_seconds").keys() == {(app,)}
    assert numbers(file, "objective_due_timestamp_seconds").keys() == {
        (f"Volume/{app}/data", "snapshot_max_age_h", app)
    }
    assert numbers(file, "rate_limit_wait_seconds_total") == {(): 0}
    assert numbers(file, "scope_owed") == numbers(file, "scope_open_questions") == {(app,): 0}
    assert numbers(file, "scope_status_since_timestamp_seconds") == {}, "one run does not know"
    assert file.stat().st_mode & 0o444 == 0o444, "the collector is another user"


def test_what_is_left_undone_is_a_change_and_a_scope_that_was_not_read_is_no_success(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    file = project.root / "shop.prom"
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "status", status=403)
    project.run("apply", "--auto-approve", "--report", f"openmetrics={file}", code=1)
    assert numbers(file, "scope_status") == {(app, "changes"): 1}
    assert numbers(file, "calls_total") == {("failed",): 1}
    sandbox.fault("GET", f"/v1/apps/{app}/*", "status", status=403, times=None)
    project.run("plan", "--report", f"openmetrics={file}", code=1)
    assert numbers(file, "scope_status") == {(app, "unknown"): 1}
    assert numbers(file, "scope_last_success_timestamp_seconds") == {}


def test_a_failed_run_leaves_the_numbers_of_the_one_before(project: Project, app: str) -> None:
    file = project.write("reconciler_scope_owed 0\n", "old.prom")
    project.write(volume(app).replace("size_gb", "size"))
    project.run("drift", "--report", f"openmetrics={file}", code=1)
    assert file.read_text() == "reconciler_scope_owed 0\n"


@pytest.mark.parametrize("part", [("manifests",), ("--target", "Volume/{}/data")])
def test_a_part_of_a_scope_says_nothing_of_the_scope(
    project: Project, app: str, part: tuple[str, ...]
) -> None:
    project.write(volume(app))
    words = [word.format(app) for word in part]
    told = project.run("plan", *words, "--report", "openmetrics=a.prom", code=64).err
    assert "openmetrics is about whole scopes: leave PATHs and --target out" in told
    assert not (project.root / "a.prom").exists()

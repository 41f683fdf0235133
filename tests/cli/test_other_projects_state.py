"""A second project that uses the place of the first one by mistake, and has no pin that would tell."""

import pytest

from reconciler.core.model import Address
from reconciler.project.identity import perhaps_other_state
from tests.cli.harness import Project, Sandbox, environment, volume

CODE = "perhaps-other-state"


@pytest.fixture
def second(project: Project, sandbox: Sandbox, app: str, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Of another app, where the first one has applied."""
    project.write(volume(app))
    project.apply()
    second = Project(tmp_path_factory.mktemp("second"))
    second.env |= environment(sandbox.url, XDG_STATE_HOME=str(second.root / "home"))
    second.env["RECONCILE_STATE"] = f"sqlite:{project.root}/.reconcile/state.db"
    sandbox.app(f"{app}-blog")
    second.write(volume(f"{app}-blog"))
    return second


def codes(project: Project, *words: str) -> list[str]:
    return [each["code"] for each in project.json("plan", *words, code=None).json["diagnostics"]]


def test_it_is_told_before_anything_is_applied(project: Project, second: Project, app: str) -> None:
    told = second.run("plan")
    assert f"knows 1 object, such as Volume/{app}/data, and these manifests declare nothing" in told.err
    lineage = project.json("plan").json["context"]["lineage"]
    assert f"`lineage: {lineage}`" in told.err
    assert codes(second)[0] == CODE
    assert CODE not in codes(project)
    second.write(f"state: {{lineage: {lineage}}}\n", "reconcile.yaml")
    assert CODE not in codes(second)


def test_a_project_that_declares_anything_of_the_same_app_is_the_states_own(
    second: Project, app: str
) -> None:
    second.write(volume(app, "other"), "manifests/other.yaml")
    assert CODE not in codes(second)


def test_a_part_of_the_manifests_is_not_taken_for_another_project(applied: Project, app: str) -> None:
    applied.write(volume(f"{app}-blog"), "manifests/blog.yaml")
    assert CODE not in codes(applied, "manifests/blog.yaml")


def test_the_first_record_of_a_shared_app_is_enough() -> None:
    """To know whether a manifest was given takes a look at its file, of which there may be thousands."""
    shop, blog = Address("Volume", "data", "shop"), Address("Volume", "data", "blog")
    recorded = iter([shop, blog])
    assert perhaps_other_state("lineage", [shop], recorded, "here") is None
    assert list(recorded) == [blog]
    assert perhaps_other_state("lineage", [shop], [blog], "here") is not None
    assert perhaps_other_state("lineage", [shop], [], "here") is None

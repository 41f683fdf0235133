"""The lineage in reconcile.yaml: no other state is taken for the one that belongs to the project."""

import shutil

import pytest

from tests.cli.harness import Project, Sandbox, volume

OTHER = {"RECONCILE_STATE": "sqlite:.reconcile/sttae.db"}


@pytest.fixture
def pinned(project: Project, app: str) -> Project:
    """A project that was applied, and whose settings name its state."""
    project.write(volume(app))
    project.apply()
    settings = project.root / "reconcile.yaml"
    lines = project.run("state", "init").out.splitlines()
    assert lines[0].endswith("exists already")
    settings.write_text(settings.read_text() + lines[-1].strip() + "\n", encoding="utf-8")
    return project


def test_the_lines_that_init_prints_pin_the_state(pinned: Project) -> None:
    lineage = pinned.json("state", "init").json["lineage"]
    assert f"state: {{url: sqlite:.reconcile/state.db, lineage: {lineage}}}" in (
        pinned.root / "reconcile.yaml"
    ).read_text(encoding="utf-8")
    assert pinned.run("state", "init").out == "sqlite:.reconcile/state.db: exists already\n"
    assert pinned.run("plan").code == 0


@pytest.mark.parametrize("there", [False, True], ids=["no-state", "empty-state"])
def test_every_verb_refuses_another_state(pinned: Project, sandbox: Sandbox, app: str, there: bool) -> None:
    data = f"Volume/{app}/data"
    if there:
        settings = pinned.root / "reconcile.yaml"
        text = settings.read_text(encoding="utf-8")
        settings.write_text("manifests: [manifests]\n", encoding="utf-8")
        pinned.run("state", "init", env=OTHER)
        settings.write_text(text, encoding="utf-8")
    files = sorted((pinned.root / ".reconcile").iterdir())
    with sandbox.recording() as requests:
        for verb in (
            ["plan"],
            ["plan", "--out", "saved.plan"],
            ["apply", "--auto-approve"],
            ["drift"],
            ["import", app],
            ["show", data],
            ["resolve", data, "--not-created"],
            ["state", "init"],
            ["state", "list"],
            ["state", "show", data],
            ["state", "mv", data, f"Volume/{app}/other"],
            ["state", "forget", data],
            ["state", "unlock", app],
            ["state", "backup"],
            ["secret", "fingerprint"],
        ):
            refused = pinned.run(*verb, code=1, env=OTHER)
            assert "error[other-state]" in refused.err, verb
            assert "check --env, --state and RECONCILE_STATE" in refused.err
    assert requests == []
    assert sorted((pinned.root / ".reconcile").iterdir()) == files
    (problem,) = pinned.json("plan", "--state", "sqlite:.reconcile/sttae.db", code=1).json["diagnostics"]
    assert problem["code"] == "other-state"


def test_verbs_without_a_state_do_not_ask_for_it(pinned: Project) -> None:
    for verb in (["validate"], ["build"], ["graph"]):
        pinned.run(*verb, env=OTHER)


def test_a_lost_state_comes_back_past_the_pin(pinned: Project) -> None:
    pinned.run("state", "backup", "kept.db")
    shutil.rmtree(pinned.root / ".reconcile")
    refused = pinned.run("state", "list", code=1)
    assert "reconcile state restore FILE" in refused.err
    pinned.run("state", "restore", "kept.db", "--auto-approve")
    assert len(pinned.json("state", "list").json["records"]) == 1


def test_the_sandbox_has_its_own_state_past_the_pin(pinned: Project) -> None:
    pinned.apply("--sandbox")
    assert pinned.run("state", "init", "--sandbox").out.endswith("exists already\n")


def test_each_environment_pins_its_own_state(pinned: Project, app: str) -> None:
    pinned.write(f"Volume/{app}/data: {{spec: {{size_gb: 20}}}}\n", "overlays/prod/shop.yaml")
    made = pinned.run("state", "init", "--env", "prod").out.splitlines()
    settings = pinned.root / "reconcile.yaml"
    lines = [line.removeprefix("  ") for line in made[-3:]]
    assert lines[:2] == ["environments:", "  prod:"]
    assert lines[2].startswith("    state: {url: sqlite:.reconcile/prod/state.db, lineage: ")
    settings.write_text(settings.read_text() + "\n".join(lines) + "\n", encoding="utf-8")
    pinned.run("state", "list", "--env", "prod")
    pinned.run("state", "list", "--env", "base")
    lineage = lines[2].partition("lineage: ")[2].rstrip("}")
    alone = settings.read_text().replace("url: sqlite:.reconcile/prod/state.db, ", "")
    settings.write_text(alone, encoding="utf-8")
    assert pinned.json("state", "init", "--env", "prod").json["lineage"] == lineage
    shutil.rmtree(pinned.root / ".reconcile/prod")
    refused = pinned.run("state", "list", "--env", "prod", code=1)
    assert (
        "there is no state at sqlite:.reconcile/prod/state.db, but reconcile.yaml expects lineage "
        f"{lineage}" in refused.err
    )

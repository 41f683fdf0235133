"""A state that is not there: nothing is made again because nobody remembers it."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import project_at
from tests.cli.harness import Project, Sandbox, cluster, only, secret, serving, volume
from tests.cli.terminal import on_a_terminal

LOST = "error: there is no state; nothing was changed"


@pytest.fixture
def forgetful(project: Project, app: str) -> Project:
    """A project that was applied, and whose state is gone with all that was beside it."""
    project.write(
        volume(app)
        + cluster(f"db-{app}")
        + secret(app, "HOST", f"template: '${{PostgresCluster/db-{app}:id}}'")
    )
    project.apply(*project.creating(f"PostgresCluster/db-{app}"))
    shutil.rmtree(project.root / ".reconcile")
    return project


def test_nothing_is_made_again_where_the_state_is_gone(
    forgetful: Project, sandbox: Sandbox, app: str
) -> None:
    before = sandbox.secrets(app)
    with sandbox.recording() as requests:
        refused = forgetful.run("apply", "--auto-approve", code=1)
    assert LOST in refused.err
    assert "error[state-missing]: there is no state at sqlite:.reconcile/state.db" in refused.err
    assert "reconcile state init" in refused.err
    assert requests == []
    assert (len(sandbox.clusters(f"db-{app}")), sandbox.secrets(app)) == (1, before)
    assert not (forgetful.root / ".reconcile").exists()


def test_a_mistake_in_the_variable_is_no_project_that_begins(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    refused = applied.apply(code=1, env={"RECONCILE_STATE": "sqlite:.reconcile/sttae.db"})
    assert [each["code"] for each in refused.json["diagnostics"]] == ["state-missing"]
    assert "sttae.db" in refused.json["diagnostics"][0]["message"]
    assert len(sandbox.volumes(app)) == 1


def test_a_plan_says_so_first_and_goes_on(forgetful: Project, app: str) -> None:
    planned = forgetful.json("plan").json
    first = planned["diagnostics"][0]
    assert (first["code"], first["severity"]) == ("state-missing", "warning")
    assert "this plan cannot be applied" in first["message"]
    assert planned["summary"]["adopt"] == 1
    forgetful.run("plan", "--detailed-exitcode", code=2)
    forgetful.run("plan", "--out", "saved.plan")
    refused = forgetful.run("apply", "--plan", "saved.plan", "--auto-approve", code=1)
    assert "error[state-missing]" in refused.err


def test_a_plan_of_the_state_that_was_is_not_applied_without_it(project: Project, app: str) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan")
    shutil.rmtree(project.root / ".reconcile")
    lost = project.run("apply", "--plan", "saved.plan", "--auto-approve", code=1)
    assert "error[state-missing]" in lost.err
    project.env["XDG_STATE_HOME"] = str(project.root / "another user")  # who has seen no state here
    project.run("state", "init")
    project.run("apply", "--plan", "saved.plan", "--auto-approve", code=1)


def test_drift_is_not_green_because_nothing_is_recorded(forgetful: Project) -> None:
    looked = forgetful.json("drift", code=1).json
    (problem,) = [each for each in looked["diagnostics"] if each["code"] == "state-missing"]
    assert problem["severity"] == "error"
    assert problem["message"].endswith("3 declared, nothing recorded")


def test_a_state_that_is_missing_is_not_sound(forgetful: Project) -> None:
    assert "there was a state: " in forgetful.run("doctor", "--probe-state", code=1).out


def test_what_needs_records_refuses_without_a_state(forgetful: Project, app: str) -> None:
    data = f"Volume/{app}/data"
    for verb in (
        ["resolve", data, "--not-created"],
        ["resolve", data, "--restarted"],
        ["show", data],
        ["state", "list"],
        ["state", "show", data],
        ["state", "forget", data],
        ["state", "mv", data, f"Volume/{app}/other"],
        ["state", "unlock", app],
        ["state", "backup"],
        ["secret", "fingerprint"],
    ):
        assert "error[state-missing]" in forgetful.run(*verb, code=1).err, verb
    assert not (forgetful.root / ".reconcile").exists()


@pytest.mark.parametrize(("typed", "code", "made"), [(b"n\n", 1, False), (b"y\ny\n", 0, True)])
def test_a_person_at_a_terminal_may_make_the_state(
    project: Project, sandbox: Sandbox, app: str, typed: bytes, code: int, made: bool
) -> None:
    shutil.rmtree(project.root / ".reconcile")
    project.write(volume(app))
    ended, shown = on_a_terminal(project, "apply", typed=typed)
    assert ended == code, shown
    assert "There is no state at sqlite:.reconcile/state.db" in shown
    assert (project.root / ".reconcile/state.db").exists() is made
    assert len(sandbox.volumes(app)) == made


def test_a_state_that_left_its_backups_is_not_replaced_by_a_new_one(applied: Project) -> None:
    for file in (applied.root / ".reconcile").glob("state.db*"):
        if file.is_file():
            file.unlink()
    refused = applied.run("state", "init", code=1)
    assert f"its backups in {applied.root / '.reconcile/state.db.backups'} still exist" in refused.err
    assert "reconcile state restore" in refused.err
    applied.run("state", "restore", "--auto-approve")
    assert applied.json("state", "list").json["records"]


# --- the sandbox's own state ---


def test_the_embedded_sandbox_never_writes_into_the_real_state(applied: Project, app: str) -> None:
    real = applied.json("state", "list").json["records"]
    applied.write(volume(app) + volume(app, "logs"))
    applied.apply("--sandbox")
    assert applied.json("state", "list").json["records"] == real
    emulated = applied.json("state", "list", "--sandbox").json["records"]
    assert {each["address"] for each in emulated} == {f"Volume/{app}/data", f"Volume/{app}/logs"}
    assert not {each["id"] for each in emulated} & {each["id"] for each in real}
    assert (applied.root / ".reconcile/sandbox-state.db").is_file()


def test_the_embedded_sandbox_takes_no_state_of_anybody(project: Project, tmp_path: Path) -> None:
    project.write(volume("shop"))
    env = {"RECONCILE_STATE": "sqlite:team.db"}
    project.apply("--sandbox", env=env)
    assert not (tmp_path / "team.db").exists()
    refused = project.run("plan", "--sandbox", "--state", "sqlite:team.db", code=64)
    assert "--sandbox has a state of its own" in refused.err


# --- what only an older state knew ---


def test_objects_that_are_older_than_the_state_are_told_until_a_person_knows_them(tmp_path: Path) -> None:
    old = "region: ams, created_at: 2020-01-01T00:00:00Z"
    seed = tmp_path / "world.yaml"
    seed.write_text(
        "apps: [{name: shop}]\nvolumes:\n"
        + "".join(
            f"- {{id: vol_{name}, app: shop, name: {name}, {old}}}\n" for name in ("one", "two", "meant")
        )
        + "- {id: vol_new, app: shop, name: new, region: ams, created_at: 2999-01-01T00:00:00Z}\n"
    )
    with serving("--clock", "x600", "--seed", str(seed)) as platform:
        project = project_at(tmp_path / "checkout", platform.url)
        project.write(volume("shop") + volume("shop", "meant", "region: ams, size_gb: 3"))
        shutil.rmtree(project.root / ".reconcile")
        begun = project.run("state", "init").out
        note = "2 objects are older than this state and unknown to it: is an older state somewhere?"
        another = project.json("state", "init", "--state", "sqlite:.reconcile/another.db").json
        found = only(another["diagnostics"])
        assert [each.rpartition("_")[2] for each in found["addresses"]] == ["one", "two"]
        assert found["advice"][1]["argv"][3:5] == ["--state", "sqlite:.reconcile/another.db"]
        assert note in project.run("plan").err
        project.apply()
        diagnostics = project.json("plan").json["diagnostics"]
        told = only([each for each in diagnostics if each["code"] == "older-objects"])
        assert (told["severity"], "retained objects" in told["help"]) == ("info", True)
        assert note in project.run("drift").err
        for named in (begun, project.run("doctor", code=None).out):
            assert note in named
            assert all(f"Volume/shop/vol_{name}" in named for name in ("one", "two"))
            assert not any(f"vol_{name}" in named for name in ("meant", "new"))
        project.run("state", "forget", "--unclaimed", "nonesuch", code=1)
        project.run("state", "forget", "--unclaimed", "vol_one")
        assert "1 object is older than this state" in project.run("drift").err
        project.run("state", "forget", "--unclaimed", "all")
        for verb in ("plan", "drift", "doctor"):
            shown = project.run(verb, code=None)
            assert "older than this state" not in shown.out + shown.err


def test_older_objects_of_an_app_with_nothing_but_secrets_are_told(tmp_path: Path) -> None:
    seed = tmp_path / "world.yaml"
    seed.write_text(
        "apps: [{name: notes}]\nvolumes: [{id: vol_kept, app: notes, name: kept, region: ams, "
        "created_at: 2020-01-01T00:00:00Z}]\n"
    )
    with serving("--clock", "x600", "--seed", str(seed)) as platform:
        project = project_at(tmp_path / "checkout", platform.url)
        project.write(secret("notes", "KEY", "env: NOBODY_SET_IT"))
        shutil.rmtree(project.root / ".reconcile")
        for verb in (("state", "init"), ("doctor",)):
            assert "Volume/notes/vol_kept" in project.run(*verb, code=None).out


def test_a_state_is_made_where_nobody_can_look(project: Project) -> None:
    shutil.rmtree(project.root / ".reconcile")
    project.env["RECONCILE_BASE_URL"] = "http://127.0.0.1:1"
    project.write(volume("shop"))
    assert "created" in project.run("state", "init").out


def test_a_key_shows_that_there_was_a_state(applied: Project) -> None:
    folder = applied.root / ".reconcile"
    for file in folder.glob("state.db*"):
        if file.name != "state.db.key":
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    for verb in (("plan",), ("apply", "--auto-approve"), ("drift",), ("doctor",)):
        shown = applied.run(*verb, code=None)
        assert f"there was a state: {folder / 'state.db.key'}" in shown.out + shown.err, verb
    told = only(applied.apply(code=1).json["diagnostics"])
    assert [each["argv"][1:3] for each in told["advice"]] == [
        ["state", "restore"],
        ["state", "migrate"],
        ["state", "init"],
    ]
    refused = applied.run("state", "restore", code=1)  # before a terminal is asked for
    assert "no backup beside it" in refused.err
    assert "no records that could be lost" not in applied.run("doctor", code=1).out

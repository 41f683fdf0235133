"""A shared state that is encrypted, from the command line."""

# ruff: noqa: F811 - fixtures are imported, and then named as parameters

import shutil
from pathlib import Path

import pytest

from reconciler.core.errors import ManifestError
from reconciler.project.settings import find_settings
from tests.cli.harness import Project, volume
from tests.cli.test_shared_state import (
    LOCAL,
    Shared,
    elsewhere,  # noqa: F401 - a fixture
    runner,
    shared,  # noqa: F401 - a fixture
)
from tests.state.encryption.doubles import ANA, BEN, Person, person
from tests.state.objects.conftest import make_s3, moto_server  # noqa: F401 - fixtures
from tests.state.postgres.conftest import database, postgres  # noqa: F401 - fixtures


def settings(url: str, *people: Person, extra: str = "") -> str:
    to = ", ".join(each.recipient for each in people)
    encrypt = f", encrypt_to: [{to}]" if people else ""
    return f"state: {{url: '{url}'{encrypt}, identity_from: {{env: STATE_IDENTITY}}{extra}}}\n"


@pytest.fixture
def team(project: Project, app: str, shared: Shared) -> Project:
    """A project whose state is to be encrypted to Ana, who is at work."""
    shutil.rmtree(project.root / ".reconcile", ignore_errors=True)
    project.env.update(shared.env)
    project.env["STATE_IDENTITY"] = ANA.identity
    project.write(settings(shared.url, ANA), "reconcile.yaml")
    project.write(volume(app))
    return project


@pytest.mark.parametrize("shared", ["s3"], indirect=True)
def test_every_verb_works_on_an_encrypted_state(
    team: Project,
    app: str,
    elsewhere: Path,
) -> None:
    assert "created" in team.run("state", "init").out
    team.apply()
    other = runner(team, elsewhere / "runner-2")
    assert "No changes" in other.run("plan").out
    assert "No drift" in other.run("drift").out
    (record,) = other.json("state", "list").json["records"]
    assert record["address"] == f"Volume/{app}/data"
    assert "is intact: 1 record" in other.run("doctor", "--probe-state").out
    assert "0 problems" in other.run("doctor", code=None).out
    assert f"Volume/{app}/data" in other.run("history", f"Volume/{app}/data").out
    run = other.json("history").json["runs"][0]["id"]
    refused = other.run("bundle", run, "--out", "run.bundle", code=1).err
    assert "its state is encrypted" in refused
    assert f"reconcile history show {run}" in refused
    assert not (other.root / "run.bundle").exists()
    assert "free: no process holds it" in other.run("state", "unlock", app).out
    assert f"{app} was unlocked" in other.run("history").out
    for text in (app, "vol_", "data"):
        assert text not in "".join(str(path) for path in other.root.rglob("*.spool"))


@pytest.mark.parametrize("shared", ["s3"], indirect=True)
def test_a_backup_stays_encrypted_and_goes_back(
    team: Project,
    shared: Shared,
    elsewhere: Path,
    app: str,
) -> None:
    team.run("state", "init")
    team.apply()
    file = elsewhere / "state.backup"
    team.run("state", "backup", str(file))
    copied = file.read_bytes() + Path(f"{file}.key").read_bytes()
    assert app.encode() not in copied
    assert b"Volume" not in copied
    team.write("{}\n", "reconcile.yaml")
    refused = team.run("state", "restore", str(file), "--auto-approve", "--state", LOCAL, code=1)
    assert "is the backup of an encrypted state" in refused.err
    assert "is the backup of an encrypted state" in team.run("plan", "--state", f"sqlite:{file}", code=1).err
    team.write(settings(shared.url + "-2", ANA, BEN), "reconcile.yaml")
    team.run("state", "restore", str(file), "--auto-approve")
    assert team.json("state", "list").json["records"]
    team.env["STATE_IDENTITY"] = BEN.identity
    assert "state-incomplete" in team.run("plan", code=None).err


@pytest.mark.parametrize("shared", ["postgres"], indirect=True)
def test_who_has_no_identity_or_another_one_is_told(team: Project, shared: Shared) -> None:
    team.run("state", "init")
    for verb in (["plan"], ["apply", "--auto-approve"]):
        del team.env["STATE_IDENTITY"]
        examined = team.run("doctor", "--probe-state", code=1).out
        refused = team.run(*verb, code=1).err
        assert "error[state-encrypted]" in refused
        assert "ok       store: passed the concurrency test" in examined
        assert "the environment variable `STATE_IDENTITY`" in examined
        assert "the environment variable `STATE_IDENTITY`" in refused
        team.env["STATE_IDENTITY"] = BEN.identity
        assert "error[state-identity]" in team.run(*verb, code=1).err
        team.env["STATE_IDENTITY"] = ANA.identity
    team.write(f"state: '{shared.url}'\n", "reconcile.yaml")
    assert "error[state-encrypted]" in team.run("plan", code=1).err


@pytest.mark.parametrize("shared", ["postgres"], indirect=True)
def test_a_plain_state_is_encrypted_rotated_and_decrypted_by_rekey(
    team: Project,
    shared: Shared,
) -> None:
    team.write(settings(shared.url), "reconcile.yaml")
    team.run("state", "init")
    team.apply()
    team.write(settings(shared.url, ANA), "reconcile.yaml")
    for verb in (["plan"], ["state", "list"]):
        assert "error[state-not-encrypted]" in team.run(*verb, code=1).err
    done = team.json("state", "rekey").json
    assert (done["recipients"], done["generation"], done["records"]) == (1, 1, 1)
    assert team.json("state", "list").json["head"] == done["head"]
    assert "No changes" in team.run("plan").out
    team.write(settings(shared.url, ANA, BEN), "reconcile.yaml")
    warned = team.run("plan")
    assert "No changes" in warned.out
    assert "encrypted to other recipients than `state.encrypt_to` names" in warned.err
    again = team.json("state", "rekey").json
    assert (again["recipients"], again["generation"]) == (2, 2)
    assert again["head_before"] == done["head"]
    team.env["STATE_IDENTITY"] = BEN.identity
    assert "encrypted to" not in team.run("plan").err
    assert "the state was encrypted to 2 recipients, with key 2" in team.run("history").out
    team.write(settings(shared.url), "reconcile.yaml")
    assert "error[state-encrypted]" in team.run("plan", code=1).err
    assert team.json("state", "rekey").json["recipients"] == 0
    team.write(f"state: '{shared.url}'\n", "reconcile.yaml")
    assert "No changes" in team.run("plan").out
    assert "is intact: 1 record" in team.run("doctor", "--probe-state").out


@pytest.mark.parametrize("shared", ["s3"], indirect=True)
def test_nobody_encrypts_a_state_so_that_he_cannot_read_it_himself(
    team: Project, shared: Shared, elsewhere: Path
) -> None:
    for_ben, for_ana = settings(shared.url, BEN), settings(shared.url, ANA)
    unreadable = "nobody here could read the state again"
    team.write(for_ben, "reconcile.yaml")
    assert unreadable in team.run("state", "init", code=1).err
    team.write(for_ana, "reconcile.yaml")
    assert "created" in team.run("state", "init").out, "nothing was made before"
    team.apply()
    team.write(for_ben, "reconcile.yaml")
    refused = team.run("state", "rekey", code=1).err
    assert unreadable in refused
    team.write(for_ana, "reconcile.yaml")
    assert "No changes" in team.run("plan").out, "the state is what it was"

    team.write(for_ben, "reconcile.yaml")
    proof = elsewhere / "identity"
    proof.write_text("not an identity\n")
    assert "is not valid" in team.run("state", "rekey", "--without-me", str(proof), code=1).err
    proof.write_text(person().identity)
    assert unreadable in team.run("state", "rekey", "--without-me", str(proof), code=1).err
    proof.write_text(BEN.identity)
    assert team.json("state", "rekey", "--without-me", str(proof)).json["recipients"] == 1
    refused = team.run("plan", code=1).err
    assert "error[state-identity]" in refused
    assert "nothing was changed" not in refused
    team.env["STATE_IDENTITY"] = BEN.identity
    assert "No changes" in team.run("plan").out


@pytest.mark.parametrize("shared", ["s3"], indirect=True)
def test_a_state_does_not_move_to_where_he_who_moves_it_cannot_read_it(
    project: Project, app: str, shared: Shared
) -> None:
    project.env.update(shared.env)
    project.env["STATE_IDENTITY"] = ANA.identity
    project.write(volume(app))
    project.apply()
    project.write(settings(shared.url, BEN), "reconcile.yaml")
    refused = project.run("state", "migrate", "--state", LOCAL, shared.url, code=1).err
    assert "nobody here could read the state again" in refused
    project.write("{}\n", "reconcile.yaml")
    assert "No changes" in project.run("plan").out


@pytest.mark.parametrize("shared", ["postgres"], indirect=True)
def test_a_state_moves_up_encrypted_and_back_plain(
    project: Project,
    app: str,
    shared: Shared,
) -> None:
    project.env.update(shared.env)
    project.env["STATE_IDENTITY"] = ANA.identity
    project.write(volume(app))
    project.apply()
    before = project.json("state", "list").json["head"]
    project.write(settings(shared.url, ANA), "reconcile.yaml")
    refused = project.run("plan", "--state", LOCAL, code=1).err
    assert "the settings say `encrypt_to`, but the state sqlite:" in refused
    moved = project.json("state", "migrate", "--state", LOCAL, shared.url).json
    assert moved["head"] == before
    assert moved["head"] == project.json("state", "list").json["head"]
    assert "No changes" in project.run("plan").out
    assert project.json("state", "migrate", LOCAL).json["head"] == before
    project.write("{}\n", "reconcile.yaml")
    assert "No changes" in project.run("plan").out
    assert project.json("state", "list").json["head"] == before


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        (
            "state: {url: 's3://b/p', encrypt_to: [age1broken], identity_from: {env: X}}\n",
            "this is not a whole public recipient",
            "reconcile.yaml:1:39",
        ),
        (
            "state: {url: 's3://b/p', encrypt_to: [hello], identity_from: {env: X}}\n",
            "expected a public",
            "reconcile.yaml:1:39",
        ),
        (
            f"state: {{url: 's3://b/p', encrypt_to: [{ANA.recipient}]}}\n",
            "`encrypt_to` needs",
            "reconcile.yaml:1:8",
        ),
        (
            f"state: {{url: 'sqlite:x.db', encrypt_to: [{ANA.recipient}], identity_from: {{env: X}}}}\n",
            "`encrypt_to` is for a shared state",
            "reconcile.yaml:1:8",
        ),
    ],
    ids=["broken", "other", "no-identity", "file"],
)
def test_settings_that_cannot_be_are_refused_where_they_stand(
    project: Project, text: str, message: str, place: str
) -> None:
    project.write(text, "reconcile.yaml")
    with pytest.raises(ManifestError) as refused:
        find_settings(project.root, {})
    (problem,) = refused.value.diagnostics
    assert problem.code == "bad-setting"
    assert message in problem.message
    assert problem.span is not None
    assert f"{problem.span.file}:{problem.span.line}:{problem.span.column}" == place


def test_the_identity_is_nobodys_secret_value_and_no_programs(project: Project) -> None:
    project.write(settings("s3://b/p", ANA), "reconcile.yaml")
    config = find_settings(project.root, {})
    assert "STATE_IDENTITY" in config.own_variables & config.secret_variables
    project.write(
        "environments: {prod: {state: {url: 's3://b/p', identity_from: {env: PROD_IDENTITY}}}}\n",
        "reconcile.yaml",
    )
    config = find_settings(project.root, {})
    assert "PROD_IDENTITY" in config.own_variables & config.secret_variables


@pytest.mark.parametrize(
    ("own", "recipients"),
    [
        ("{}", 1),
        ("{url: 's3://b/other'}", 1),
        ("{url: 's3://b/other', encrypt_to: []}", 0),
        ("{url: 'sqlite:prod.db'}", 0),
        (f"{{encrypt_to: [{ANA.recipient}, {BEN.recipient}], identity_from: {{env: X}}}}", 2),
    ],
    ids=["silent", "another", "plain", "file", "own"],
)
def test_an_environment_is_encrypted_as_the_others_unless_it_says_otherwise(
    project: Project, own: str, recipients: int
) -> None:
    prod = f"environments: {{prod: {{state: {own}}}}}\n"
    project.write(settings("s3://b/p", ANA) + prod, "reconcile.yaml")
    state = find_settings(project.root, {}, "prod").settings.state
    assert len(state.encrypt_to) == recipients
    given = find_settings(project.root, {"RECONCILE_STATE": "postgresql://db/x"}).settings.state
    assert (given.url, given.encrypt_to) == ("postgresql://db/x", [ANA.recipient])

"""`reconcile drift` as people run it: accepting, baselines, and never anything but GET."""

import stat
from pathlib import Path

import pytest

from reconciler.cli.main import USAGE, run
from tests.cli.harness import Project, Sandbox, cluster, environment, only, secret, serving, volume
from tests.cli.test_documents import PLAN, assert_plan

DRIFT = PLAN - {"steps"} | {"unmanaged"}


def test_drift_is_accepted_and_both_drift_and_plan_are_quiet(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    file = project.write(volume(app) + volume(app, "logs"))
    project.apply()
    ids = {each["name"]: each["id"] for each in sandbox.volumes(app)}
    for name in ids:
        sandbox.edit_volume(ids[name], size_gb=20)
    before = file.read_text()
    part = project.json("drift", "--accept", f"Volume/{app}/logs", code=2).json
    assert_plan(part, DRIFT | {"accepted", "refused"})
    assert only(part["accepted"]) == {
        "address": f"Volume/{app}/logs",
        "path": "size_gb",
        "file": "manifests/main.yaml",
        "line": 10,
        "column": 30,
        "before": 10,
        "after": 20,
    }
    assert part["refused"] == []
    told = project.run("drift", "manifests/", "--accept", f"Volume/{app}/data").out
    assert "manifests/main.yaml:5:30: size_gb: 10 -> 20" in told
    assert "Accepted: 1 object in 1 file; nothing drifts any more." in told
    assert file.read_text() == before.replace("size_gb: 10", "size_gb: 20")
    with sandbox.recording() as requests:
        assert (
            project.run("drift", "--accept").out.splitlines()[1].startswith("No drift in 2 recorded objects")
        )
        assert project.apply().json["changes"] == []
    assert {method for method, _ in requests} == {"GET"}


def test_a_value_that_was_replaced_is_not_warned_of_any_more(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    text = volume(app, spec="region: ams, auto_backup_enabled: on")
    project.write(text)
    project.apply()
    (there,) = sandbox.volumes(app)
    sandbox.edit_volume(there["id"], auto_backup_enabled=False)
    assert "yaml-1.1-surprise" in project.run("drift", code=2).err
    told = project.run("drift", "--accept")
    assert "auto_backup_enabled: true -> false" in told.out
    assert told.err == ""


def test_what_cannot_be_accepted_is_told_and_no_file_is_touched(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    file = project.write(volume(app) + volume(app, "logs", "region: ams, size_gb: {min: 10, max: 15}"))
    project.apply()
    for each in sandbox.volumes(app):
        sandbox.edit_volume(each["id"], size_gb=20)
    before = file.read_bytes()
    refused = project.json("drift", "--accept", code=1).json
    assert_plan(refused, DRIFT | {"accepted", "refused"})
    assert refused["accepted"] == []
    refusal = only(refused["refused"])
    assert (refusal["address"], refusal["path"], refusal["line"]) == (f"Volume/{app}/logs", "size_gb", 10)
    assert refusal["code"] == only(refused["diagnostics"])["code"] == "cannot-accept"
    told = project.run("drift", "--accept", code=1)
    assert f"The others alone: reconcile drift --accept Volume/{app}/data" in told.out
    wrong = project.run("drift", "--accept", f"Volume/{app}/dta", code=1)
    assert f"did you mean `Volume/{app}/data`?" in wrong.err
    assert file.read_bytes() == before


def test_drift_sends_nothing_but_get_in_any_mode(tmp_path: Path) -> None:
    """Also with the embedded sandbox: the one that runs on its file is used, and its log is read."""
    project = Project(tmp_path, environment(None))
    private = tmp_path / ".reconcile"
    private.mkdir(mode=0o700)
    with serving("--clock", "x600", "--profile", "extended", "--db", str(private / "sandbox.db")) as sandbox:
        app = sandbox.app("shop")
        project.write("manifests: [manifests]\nplatform: {capabilities: [extended]}\n", "reconcile.yaml")
        project.write(
            volume(app, spec="region: ams, size_gb: 10, snapshot_retention: 14")
            + secret(app, "KEY", "env: SHOP_KEY")
        )
        env = {"SHOP_KEY": "canary-value"}
        project.run("apply", "--sandbox", "--auto-approve", env=env)
        id = sandbox.volume(app)["id"]
        sandbox.edit_volume(id, size_gb=20, snapshot_retention=5)
        sandbox.call("POST", "/v1/apps/shop/secrets/KEY", {"value": "somebody else's"})
        with sandbox.recording() as requests:
            project.run("drift", "--sandbox", code=2)
            new = project.json("drift", "--sandbox", "--only-new", code=2).json
            assert_plan(new, DRIFT | {"baseline"})
            assert (new["baseline"]["saved_at"], new["baseline"]["known"]) == (None, 0)
            saved = project.json("drift", "--sandbox", "--save-baseline").json
            assert saved["baseline"]["known"] == 3
            assert (
                "No new drift in 2 recorded objects." in project.run("drift", "--sandbox", "--only-new").out
            )
            refused = project.run("drift", "--sandbox", "--accept", code=1)
            assert "a secret's value cannot be read back" in refused.err
            project.run("drift", "--sandbox", "--accept", "Volume/shop/data", code=2)
        assert len(requests) >= 12
        assert {method for method, _ in requests} == {"GET"}
        assert stat.S_IMODE((private / "drift-baseline.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--accept", "--only-new"], "exclude each other"),
        (["--only-new", "--save-baseline"], "exclude each other"),
        (["--accept", "volume/shop/data"], "neither a path nor an address"),
        (["--accept", "Volumes/shop/data"], "neither a path nor an address"),
        (["--accept", "Volume/shop/data"], "is an address and a path: write ./Volume/shop/data"),
    ],
)
def test_a_misuse_is_told_before_anything_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    told: str,
) -> None:
    (tmp_path / "Volume/shop/data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert run(["drift", *arguments]) == USAGE
    assert told in capsys.readouterr().err


def test_what_no_manifest_names_is_compared_told_and_settled(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    """Also the objects that only the state knows: by every verb and format, until a person has answered."""
    project.write(volume(app, "new"))
    left = volume(app) + volume(app, "gone") + volume(app, "same")
    project.write(left + volume(app, "logs", rest="lifecycle: {deletion: delete}"), "manifests/left.yaml")
    project.apply()
    project.remove("manifests/left.yaml")
    ids = {each["name"]: each["id"] for each in sandbox.volumes(app)}
    quiet = project.run("drift").out
    assert "No drift in 5 recorded objects (4 have no manifest)." in quiet
    assert project.run("doctor").code == 0
    for name in ("data", "logs"):
        sandbox.edit_volume(ids[name], size_gb=50)
    sandbox.call("POST", f"/v1/apps/{app}/volumes/{ids['gone']}/snapshots")
    sandbox.advance(60)
    sandbox.call("DELETE", f"/v1/apps/{app}/volumes/{ids['gone']}")
    drift = project.json("drift", code=2).json
    assert [change["address"].rpartition("/")[2] for change in drift["changes"]] == ["data", "gone", "logs"]
    assert drift["without_manifest"] == 4
    gone = only(drift["diagnostics"])
    assert (gone["code"], gone["severity"]) == ("object-destroyed", "warning")
    assert "its newest snapshot is vs_" in gone["help"]
    assert ", kept until " in gone["help"]
    assert gone["advice"] == [{"argv": ["reconcile", "state", "forget", f"Volume/{app}/gone"]}]
    part = project.run("drift", "--target", f"Volume/{app}/new").out
    assert "No drift in 1 recorded object; 4 not looked at." in part
    for form in ("markdown", "html", "junit", "sarif", "github"):
        assert "gone" in project.run("drift", "-o", form, code=2).out
    reasons = {
        each["address"].rpartition("/")[2]: each["reason"] for each in project.json("plan").json["changes"]
    }
    assert "`size_gb` changed: 10 -> 50" in reasons["data"]
    assert "`size_gb` changed: 10 -> 50" in reasons["logs"]
    assert "gone: the platform shows it as pending_destroy" in reasons["gone"]
    assert reasons["same"].endswith("kept on the platform (lifecycle deletion: retain)")
    doctor = project.run("doctor", code=1).out
    assert "Drift in 3 of 5 recorded objects" in doctor
    refused = project.json("drift", "--accept", code=1).json
    assert only(refused["refused"])["address"] == f"Volume/{app}/gone"
    accepted = project.run("drift", "--accept", f"Volume/{app}/data", f"Volume/{app}/logs", code=2).out
    assert f"Volume/{app}/data: size_gb: 10 -> 50" in accepted
    assert "Accepted: 2 objects in the state; 1 still drifting." in accepted
    project.run("state", "forget", f"Volume/{app}/gone")
    assert "No drift in 4 recorded objects (3 have no manifest)." in project.run("drift").out
    assert "are as they should be" in project.run("history").out


def test_an_open_call_is_no_quiet_world(project: Project, sandbox: Sandbox, app: str) -> None:
    name = f"{app}-db"
    sandbox.fault("POST", "/v1/postgres", "drop_after")
    project.write(volume(app) + cluster(name))
    project.apply(*project.creating(f"PostgresCluster/{name}"), code=3)
    told = project.json("drift", code=3).json
    assert only(told["diagnostics"])["code"] == "unknown-outcome"
    project.run("resolve", f"PostgresCluster/{name}", "--adopt", sandbox.clusters(name)[0]["id"])
    assert project.run("drift").code == 0

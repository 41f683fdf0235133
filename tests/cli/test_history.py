"""`reconcile history`: who did what and why, and what became of it."""

import json
import re

import pytest

from tests.cli.harness import Project, Sandbox, volume
from tests.cli.terminal import SHORT_SCREEN, TOLD_PAGER, on_a_terminal
from tests.cli.test_who_and_why import CI, URL


@pytest.fixture
def applied(project: Project, app: str) -> Project:
    """A project with two runs: a volume was made, and grew."""
    project.write(volume(app))
    project.apply("--reason", "the shop opens")
    project.write(volume(app, spec="region: ams, size_gb: 12"))
    project.apply("--reason", "more room", env=CI)
    return project


def test_the_runs_are_listed_newest_first(applied: Project, app: str) -> None:
    told = applied.run("history").out.splitlines()
    assert told[0].startswith("base: http://")
    newest, why, *rest = told[1:]
    assert re.fullmatch(r"[0-9a-f]{8}  \S+ \S+ UTC  done: 1 extend by ana in base", newest)
    assert why.strip() == "because: more room"
    (number,) = (number for number, line in enumerate(rest) if "done: 1 create by " in line)
    assert rest[number + 1].strip() == "because: the shop opens"


def test_json_says_all_of_it(applied: Project, app: str) -> None:
    found = applied.json("history").json
    assert found["format_version"] == "1"
    assert found["context"]["environment"] == "base"
    assert found["older"] == 0
    assert [each["decided"].split(" at ")[0] for each in found["decisions"]] == [
        "the state is about the platform",
        "the state remembers when it was made",
    ]
    newest, _ = found["runs"]
    assert (newest["actor"], newest["url"], newest["reason"]) == ("ana", URL, "more room")
    assert (newest["outcome"], newest["outcomes"], newest["changes"]) == ("done", {"done": 1}, {"extend": 1})
    assert newest["scopes"] == [app]
    assert newest["began"] <= newest["ended"]
    assert "calls" not in newest
    shown = applied.json("history", "show", newest["id"][:6]).json["run"]
    assert {name: shown[name] for name in newest} == newest
    (call,) = shown["calls"]
    assert (call["method"], call["address"], call["outcome"]) == ("PUT", f"Volume/{app}/data", "done")
    assert call["path"].startswith(f"/v1/apps/{app}/volumes/vol_")
    ((read, seen),) = [(each, each["objects"]) for each in shown["observed"]["reads"]]
    assert read["path"] == f"/v1/apps/{app}/volumes"
    assert [shown["observed"]["objects"][digest]["size_gb"] for digest in seen] == [10]


def test_one_run_is_shown_with_its_calls_and_what_is_owed(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.apply()
    sandbox.machine(app, sandbox.volume(app)["id"])
    project.write(volume(app, spec="region: ams, size_gb: 12"))
    project.apply("--reason", "more room", env=CI)
    id = project.json("history").json["runs"][0]["id"]
    told = project.run("history", "show", id[:5]).out
    assert f"\nrun {id}\n" in told
    assert re.search(r"^  ended: +\S+ \S+ UTC: done$", told, re.MULTILINE)
    assert f"  by:          ana, {URL}\n" in told
    assert "  reason:      more room\n" in told
    assert f"Volume/{app}/data#extend  done\n" in told
    assert f"owed at its end:\n  restart of Volume/{app}/data" in told
    assert f"owed: restart of Volume/{app}/data" in project.run("history").out


def test_an_address_is_shown_with_its_calls(applied: Project, app: str) -> None:
    applied.write(volume(app, "logs"), "manifests/logs.yaml")
    applied.apply()
    address = f"Volume/{app}/data"
    told = applied.run("history", address).out
    assert len(re.findall(r"^ +\S+ (?:PUT|POST) ", told, re.MULTILINE)) == 2
    assert "logs" not in told
    found = applied.json("history", address).json["runs"]
    assert [call["method"] for run in found for call in run["calls"]] == ["PUT", "POST"]
    told = applied.run("history", f"Volume/{app}/dat", code=1).err
    assert f"did you mean `{address}`?" in told


def test_decisions_stand_among_the_runs(applied: Project, app: str) -> None:
    address = f"Volume/{app}/data"
    applied.run("state", "forget", address, "--reason", "made by hand", env=CI)
    first = applied.run("history").out.splitlines()[1]
    assert re.search(
        rf"the record of {address} \(vol_\w+\) was dropped by ana, because: made by hand$", first
    )
    decision = applied.json("history").json["decisions"][0]
    assert (decision["by"], decision["url"], decision["address"]) == ("ana", URL, address)


def test_since_leaves_out_what_is_older(applied: Project) -> None:
    assert len(applied.json("history", "--since", "2w").json["runs"]) == 2
    assert len(applied.json("history", "--since", "2020-01-31").json["runs"]) == 2
    later = applied.run("history", "--since", "2999-01-01T10:00:00+02:00")
    assert later.err == "nothing was done in that time\n"
    for wrong in ("soon", "7y", "2026-13-01", "999999w"):
        assert "is not a duration" in applied.run("history", "--since", wrong, code=64).err


def test_what_cannot_be_shown_is_an_error(applied: Project) -> None:
    assert "no run has an id that begins with `zz`" in applied.run("history", "show", "zz", code=1).err
    for arguments in (
        ("show",),
        ("show", ""),
        ("show", "a", "b"),
        ("show", "a", "--since", "7d"),
        ("a/b/c", "d"),
    ):
        applied.run("history", *arguments, code=64)
    applied.run("history", "nonsense", code=64)
    missing = applied.run("history", "--state", "sqlite:none.db", code=1).err
    assert "there is no state" in missing
    assert not (applied.root / "none.db").exists()


def test_a_run_that_died_is_cut_off_until_the_next_one_finds_out(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=30)
    with project.started("apply", "--auto-approve") as running:
        running.until(lambda: sandbox.seen("POST", f"/v1/apps/{app}/volumes") or sandbox.fault_taken())
        assert project.json("history").json["runs"][0]["outcome"] == "running"
        running.kill()
    sandbox.clear_faults()
    (run,) = project.json("history").json["runs"]
    assert (run["outcome"], run["ended"], run["outcomes"]) == ("cut-off", None, {"unknown": 1})
    project.apply()
    call = project.json("history", "show", run["id"]).json["run"]["calls"][0]
    assert call["settled"] is not None


def test_nothing_that_the_environment_says_leaves_its_place(project: Project, app: str) -> None:
    project.write(volume(app))
    project.apply("--reason", "\x1b[2Jall fine\nforged line", env={"GITHUB_ACTOR": "a\u202eb\n::error::c"})
    told = project.run("history").out
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert "\nforged" not in told
    assert "::error::" not in told
    json.loads(project.json("history").out)


def test_a_long_history_goes_through_the_pager(applied: Project) -> None:
    code, shown = on_a_terminal(applied, "history", env={"PAGER": TOLD_PAGER, **SHORT_SCREEN})
    assert (code, "paged: base:" in shown) == (0, True)

"""`reconcile doctor`: each thing that a run relies on, whole and broken, and that looking changes nothing."""

import shutil
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.clock import SystemClock
from reconciler.core.errors import Locked
from reconciler.core.model import StateRecord
from reconciler.doctor.state import check_lock
from reconciler.state import open_store
from reconciler.state.places.sqlite import backups
from reconciler.state.spooling import Spooling
from reconciler.state.store import Event, JournalEntry
from tests.cli.conftest import project_at
from tests.cli.harness import Project, Sandbox, cluster, serving, volume
from tests.cli.test_state import damage, holder, state_file
from tests.state.test_migrations import left_by

__all__ = ["holder"]  # a fixture

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
_numbers = count(1)

NAMES = [
    "manifests",
    "address",
    "token",
    "clock",
    "state",
    "lock",
    "owed",
    "open calls",
    "backups",
    "capabilities",
    "objects",
]


def checks(project: Project, *options: str, code: int, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The checks by name, as JSON has them."""
    found = project.json("doctor", *options, code=code, env=env).json
    assert found["format_version"] == "1"
    assert [each["name"] for each in found["checks"]] == NAMES
    assert all(each.keys() >= {"name", "outcome", "message", "advice"} for each in found["checks"])
    return {each["name"]: each for each in found["checks"]}


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    """Of what is not in order."""
    return {name: each["outcome"] for name, each in found.items() if each["outcome"] != "ok"}


def files_below(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def real() -> Iterator[Sandbox]:
    """A platform whose clock is ours."""
    with serving("--clock", "real") as sandbox:
        yield sandbox


@pytest.fixture
def calm(real: Sandbox, tmp_path: Path) -> Iterator[Project]:
    """An applied project in which all is well."""
    made = project_at(tmp_path, real.url)
    made.write(volume(real.app(f"shop{next(_numbers)}")))
    made.apply()
    yield made
    real.clear_faults()


def test_all_is_well_and_looking_changes_nothing(calm: Project, real: Sandbox) -> None:
    before = files_below(calm.root)
    with real.recording() as requests:
        assert outcomes(checks(calm, code=0)) == {}
    assert files_below(calm.root) == before
    assert {method for method, _ in requests} == {"GET"}
    first, *lines = calm.run("doctor").out.splitlines()
    assert first.startswith(f"base: {real.url}, sqlite:.reconcile/state.db, ")
    assert [line.split()[0] for line in lines[: len(NAMES)]] == ["ok"] * len(NAMES)
    assert lines[-1] == "0 problems, 0 warnings."


def test_the_store_is_tried_out_where_that_is_asked_for(calm: Project) -> None:
    found = calm.json("doctor", "--probe-state").json["checks"]
    assert [check["name"] for check in found] == [*NAMES[:4], "store", *NAMES[4:]]
    assert found[4]["message"] == "files of this machine: there is nothing to try out"


def test_a_folder_that_others_may_read_is_left_as_it_is(calm: Project) -> None:
    private = calm.root / ".reconcile"
    private.chmod(0o755)
    checks(calm, code=0)
    assert private.stat().st_mode & 0o777 == 0o755


def test_a_project_that_begins_is_told_what_to_type(calm: Project) -> None:
    shutil.rmtree(calm.root / ".reconcile")
    found = checks(calm, code=1)
    assert outcomes(found) == {"state": "problem", "backups": "warning", "objects": "warning"}
    assert {"argv": ["reconcile", "state", "init"]} in found["state"]["advice"]
    assert not (calm.root / ".reconcile").exists()
    text = calm.run("doctor", code=1).out
    assert "problem  state: there is no state at sqlite:.reconcile/state.db" in text
    assert "for a new project, run `reconcile state init`" in text


@pytest.mark.parametrize(
    ("status", "why"), [(401, "was refused"), (403, "may not read this")], ids=["401", "403"]
)
def test_a_token_that_is_not_taken_is_told_apart_from_the_rest(
    calm: Project, real: Sandbox, status: int, why: str
) -> None:
    real.fault("GET", "*", "status", status=status, body={"error": "unauthorized"})
    found = checks(calm, code=1)
    assert outcomes(found) == {"token": "problem", "capabilities": "warning", "objects": "warning"}
    assert why in found["token"]["message"]
    assert "RECONCILE_TOKEN" in found["token"]["message"]


def test_a_wrong_token_is_refused_and_never_shown(calm: Project) -> None:
    shown = calm.run("doctor", code=1, env={"RECONCILE_TOKEN": "hunter2hunter2"})
    assert "problem  token: the token of the environment variable `RECONCILE_TOKEN` was refused" in shown.out
    assert "hunter2" not in shown.out + shown.err


def test_a_missing_token_is_named(calm: Project) -> None:
    del calm.env["RECONCILE_TOKEN"]
    found = checks(calm, code=1)
    assert found["token"]["outcome"] == "problem"
    assert "`RECONCILE_TOKEN` is not set" in found["token"]["message"]


def test_an_address_where_nobody_answers(calm: Project) -> None:
    found = checks(calm, code=1, env={"RECONCILE_BASE_URL": "http://127.0.0.1:1"})
    assert found["address"]["outcome"] == "problem"
    assert "http://127.0.0.1:1" in found["address"]["message"]
    assert {found[name]["outcome"] for name in ("token", "clock", "capabilities")} == {"warning"}
    assert "belongs to the platform at" in found["state"]["message"]


def test_no_address_at_all(calm: Project) -> None:
    del calm.env["RECONCILE_BASE_URL"]
    found = checks(calm, code=1)
    assert "no platform is configured" in found["address"]["message"]


@pytest.mark.parametrize(
    ("action", "details"),
    [("html", {"status": 404}), ("status", {"status": 503}), ("status", {"status": 302})],
    ids=["page", "503", "redirect"],
)
def test_an_address_where_another_one_answers(
    calm: Project, real: Sandbox, action: str, details: dict[str, Any]
) -> None:
    real.fault("GET", "*", action, **details)
    assert checks(calm, code=1)["address"]["outcome"] == "problem"


def test_a_clock_that_is_off_is_told(calm: Project, real: Sandbox) -> None:
    real.fault("GET", "*", "status", status=200, body=[], headers={"date": "Sat, 01 Jan 2000 00:00:00 GMT"})
    found = checks(calm, code=0)
    assert outcomes(found) == {"clock": "warning"}
    assert "ahead of the platform's" in found["clock"]["message"]


def test_a_tampered_state_is_found_and_its_backup_named(calm: Project) -> None:
    damage(calm, "UPDATE objects SET body = x'00' WHERE key LIKE '%/heads/%'")
    found = checks(calm, code=1)
    assert found["state"]["outcome"] == "problem"
    assert "is damaged" in found["state"]["message"]
    assert {"argv": ["reconcile", "state", "restore"]} in found["state"]["advice"]
    assert found["backups"]["outcome"] == "ok"


def test_a_state_that_was_rolled_back_is_found_by_what_was_seen(calm: Project) -> None:
    kept = state_file(calm).read_bytes()
    (app,) = [each["scope"] for each in calm.json("state", "list").json["records"]]
    calm.write(volume(app) + volume(app, "logs"))
    calm.apply()
    for name in ("state.db-wal", "state.db-shm"):
        (state_file(calm).parent / name).unlink(missing_ok=True)
    state_file(calm).write_bytes(kept)
    found = checks(calm, code=1)
    assert "missing from the file" in found["state"]["message"]


def test_a_lost_state_with_backups_is_not_a_project_that_begins(calm: Project) -> None:
    for file in state_file(calm).parent.glob("state.db*"):
        if file.is_file():
            file.unlink()
    found = checks(calm, code=1)
    assert "its backups" in found["state"]["message"]
    assert {"argv": ["reconcile", "state", "restore"]} in found["state"]["advice"]
    assert {found[name]["outcome"] for name in ("lock", "owed", "open calls")} == {"warning"}


def test_another_state_than_the_pinned_one(calm: Project) -> None:
    other = "6c1e0a52-4c0f-4f9e-9d43-0f3f1f1d8a57"
    settings = f"manifests: [manifests]\nstate: {{lineage: {other}}}\n"
    (calm.root / "reconcile.yaml").write_text(settings, encoding="utf-8")
    found = checks(calm, code=1)
    assert other in found["state"]["message"]


def test_a_state_that_is_about_another_platform(calm: Project, real: Sandbox) -> None:
    url = real.url.replace("127.0.0.1", "localhost")
    found = checks(calm, code=1, env={"RECONCILE_BASE_URL": url})
    assert outcomes(found) == {"state": "problem", "objects": "warning"}
    assert {"argv": ["reconcile", "state", "set-platform", url]} in found["state"]["advice"]


def test_where_environments_exist_one_must_be_said(calm: Project) -> None:
    calm.write("{}", "overlays/prod/none.yaml")
    calm.run("doctor", code=64)
    assert calm.json("doctor", "--env", "base").json["context"]["environment"] == "base"


def test_a_state_of_an_older_version_stays_as_it_is(calm: Project) -> None:
    shutil.rmtree(calm.root / ".reconcile")
    left_by(3, state_file(calm))
    before = files_below(calm.root)
    found = checks(calm, code=1)  # a call in it has no outcome
    assert found["state"]["outcome"] == "warning"
    assert "the state has version 3, of an older program: `reconcile apply`" in found["state"]["message"]
    assert files_below(calm.root) == before


@pytest.mark.usefixtures("holder")
def test_who_holds_a_lock_is_named(project: Project) -> None:
    found = checks(project, code=0)
    assert found["lock"]["outcome"] == "warning"
    assert "`held` by " in found["lock"]["message"]
    assert found["lock"]["advice"] == [{"argv": ["reconcile", "state", "unlock", "held", "--force"]}]
    project.run(*found["lock"]["advice"][0]["argv"][1:])
    assert checks(project, code=0)["lock"]["outcome"] == "ok"


def test_each_lock_that_is_held_is_in_the_advice() -> None:
    (unlock,) = check_lock({scope: Locked(scope, "ghost", 9) for scope in ("shop", "")}).advice
    assert unlock == command("state", "unlock", "", "shop", "--force")


def test_an_owed_restart_is_named(calm: Project, real: Sandbox) -> None:
    (record,) = calm.json("state", "list").json["records"]
    real.machine(record["scope"], record["id"])
    calm.write(volume(record["scope"], spec="region: ams, size_gb: 20"))
    calm.apply()
    found = checks(calm, code=0)
    assert outcomes(found) == {"owed": "warning"}
    assert f"{record['address']}: restart (owed)" in found["owed"]["message"]
    done = ["reconcile", "resolve", record["address"], "--restarted"]
    assert found["owed"]["advice"] == [{"argv": done}]


def test_a_call_without_an_outcome_is_a_problem(calm: Project, real: Sandbox) -> None:
    calm.write(cluster("doctored"), "manifests/cluster.yaml")
    real.fault("POST", "/v1/postgres", "drop_after")
    calm.apply(*calm.creating("PostgresCluster/doctored"), code=3)
    found = checks(calm, code=1)
    assert outcomes(found) == {"open calls": "problem", "objects": "problem"}
    assert "POST /v1/postgres for PostgresCluster/doctored, sent at " in found["open calls"]["message"]


def in_the_state(project: Project, work: Callable[[Spooling, StateRecord], Awaitable[object]]) -> None:
    """Do `work` with the state and its only record."""

    async def do() -> None:
        store = open_store(f"sqlite:{state_file(project)}", clock=SystemClock(), root=project.root)
        (record,) = (await store.load()).records.values()
        await work(store, record)
        await store.close()

    anyio.run(do)


def test_outcomes_that_were_kept_beside_the_state_are_named(calm: Project) -> None:
    async def spool(store: Spooling, record: StateRecord) -> None:
        lease = await store.lease([record.scope], "the test")
        call = {"scope": record.scope, "method": "PUT", "path": "/v1/apps/shop/volumes/vol_1"}
        intent = JournalEntry("r1", Event.INTENT, NOON, record.address, "update", data=call)
        await store.commit(lease, [intent])
        await store.spool(lease, [replace(intent, event=Event.DONE, data={})], [record])
        await store.release(lease)

    in_the_state(calm, spool)
    found = checks(calm, code=0)
    assert outcomes(found) == {"open calls": "warning", "objects": "warning"}
    (scope,) = {each["scope"] for each in calm.json("state", "list").json["records"]}
    told = f"outcomes that could not be stored are in a file beside the state; scopes: `{scope}`"
    assert found["open calls"]["message"] == told
    calm.apply()
    assert outcomes(checks(calm, code=0)) == {}


def test_backups_that_are_missing_or_damaged(calm: Project) -> None:
    made = backups.all_of(state_file(calm))[0].path
    made.write_bytes(made.read_bytes()[:5000])
    assert made.name in checks(calm, code=0)["backups"]["message"]
    shutil.rmtree(made.parent)
    found = checks(calm, code=0)
    assert outcomes(found) == {"backups": "warning"}
    assert found["backups"]["advice"] == [{"argv": ["reconcile", "state", "backup"]}]


def test_a_capability_that_the_platform_does_not_have(calm: Project) -> None:
    declared = {"RECONCILE_CAPABILITIES": "secrets.list,secrets.delete"}
    found = checks(calm, code=1, env=declared)
    assert outcomes(found) == {"capabilities": "problem"}
    told = found["capabilities"]["message"]
    assert "answer 404: secrets.list (GET /v1/apps/" in told
    assert "cannot be checked with a GET: secrets.delete" in told


def test_capabilities_that_the_platform_has(extended_project: Project, extended: Sandbox) -> None:
    extended_project.write(volume(extended.app("shop")) + cluster("orders"))
    extended_project.apply()
    found = checks(extended_project, code=0)
    assert found["capabilities"]["outcome"] == "ok"
    there = found["capabilities"]["message"].partition("there: ")[2].partition(";")[0]
    assert there == "machine.list, postgres.backups, postgres.list, secrets.list"


def test_manifests_that_hold_errors_do_not_hide_the_rest(calm: Project) -> None:
    calm.write("kind: Nothing\n", "manifests/broken.yaml")
    found = checks(calm, code=1)
    assert outcomes(found) == {"manifests": "problem", "objects": "warning"}
    assert found["manifests"]["advice"] == [{"argv": ["reconcile", "validate"]}]


def test_the_sandbox_is_looked_at_and_not_made(calm: Project) -> None:
    before = files_below(calm.root)
    found = checks(calm, "--sandbox", code=0)
    assert found["address"]["message"] == "there is no emulated platform yet"
    assert files_below(calm.root) == before
    calm.run("plan", "--sandbox")
    assert outcomes(checks(calm, "--sandbox", code=0)) == {}
    told = calm.run("doctor", "--sandbox", "--state", "sqlite:x.db", code=64)
    assert "--sandbox has a state of its own" in told.err


def test_a_mistake_in_the_command_line_is_64(calm: Project) -> None:
    calm.run("doctor", "Volume/shop/data", code=64)

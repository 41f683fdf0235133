"""A resource with a new name: refused as it stands, and the same object once its record has moved."""

import re
import textwrap

import pytest

from tests.cli.harness import Project, Sandbox, moved, only, volume
from tests.inprocess import Command

FOREVER_S = 600  # a request that is held so long before its effect never arrives

SPEC = "region: ams, size_gb: 10"


def addresses(project: Project) -> list[str]:
    return [record["address"] for record in project.json("state", "list").json["records"]]


def test_a_new_name_is_refused_and_the_entry_it_offers_makes_the_plan_empty(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    made = sandbox.volume(app)
    applied.write(volume(app, "files"))
    refused = applied.run("apply", "--auto-approve", code=1)
    assert f"error[renamed]: `Volume/{app}/files` may be `Volume/{app}/data` ({made['id']})" in refused.err
    entry = re.search(r"^ +apiVersion:.*?^ +spec: [^\n]*\n", refused.err, re.MULTILINE | re.DOTALL)
    assert entry is not None
    applied.write(textwrap.dedent(entry[0]), "manifests/moved.yaml")
    with sandbox.recording() as requests:
        plan = applied.run("plan", "--detailed-exitcode")
        assert plan.out.splitlines()[1:] == ["No changes: 1 resource is as declared."]
        assert f"info[move-pending]: the record of Volume/{app}/data ({made['id']}) moves to" in plan.err
        assert addresses(applied) == [f"Volume/{app}/data"]
        shown = applied.run("show", f"Volume/{app}/files").out
        assert shown.splitlines()[1] == f"Volume/{app}/files {made['id']}"
        assert applied.run("drift").out.splitlines()[1] == "No drift in 1 recorded object."
        applied.apply()
        assert addresses(applied) == [f"Volume/{app}/files"]
        again = applied.json("plan").json
    assert [each["code"] for each in again["diagnostics"]] == ["move-done"]
    assert again["steps"] == []
    assert "moves" not in again
    assert {method for method, _ in requests} == {"GET"}
    assert sandbox.volume(app) == made


@pytest.mark.parametrize("skip", [0, 1], ids=["while-planning", "under-the-lease"])
def test_killed_before_the_move_is_written(applied: Project, sandbox: Sandbox, app: str, skip: int) -> None:
    applied.write(
        volume(app, "files", "region: ams, size_gb: 20") + moved(f"Volume/{app}/data", f"Volume/{app}/files")
    )
    killed(applied, sandbox, "GET", f"/v1/apps/{app}/volumes", skip)
    assert addresses(applied) == [f"Volume/{app}/data"]
    applied.apply()
    assert sandbox.volume(app)["size_gb"] == 20
    assert addresses(applied) == [f"Volume/{app}/files"]


def test_killed_after_the_move_is_written(applied: Project, sandbox: Sandbox, app: str) -> None:
    applied.write(
        volume(app, "files", "region: ams, size_gb: 20") + moved(f"Volume/{app}/data", f"Volume/{app}/files")
    )
    killed(applied, sandbox, "PUT", f"/v1/apps/{app}/volumes/*/extend")
    assert addresses(applied) == [f"Volume/{app}/files"]
    applied.apply()
    assert sandbox.volume(app)["size_gb"] == 20
    assert applied.apply().json["steps"] == []
    assert addresses(applied) == [f"Volume/{app}/files"]


def killed(project: Project, sandbox: Sandbox, method: str, path: str, skip: int = 0) -> None:
    """Apply, and kill it while it waits for the answer to a request that never arrives."""
    for _ in range(skip):
        sandbox.fault(method, path, "delay", delay_s=0)
    sandbox.fault(method, path, "delay", delay_s=FOREVER_S, before=True)
    with project.started_apply() as running:
        running.until(sandbox.fault_taken)
        running.kill()
    sandbox.clear_faults()


def test_a_saved_plan_does_not_move_to_another_name(applied: Project, sandbox: Sandbox, app: str) -> None:
    applied.write(volume(app, "files") + moved(f"Volume/{app}/data", f"Volume/{app}/files"))
    applied.run("plan", "--out", "the.plan")
    applied.write(volume(app, "logs") + moved(f"Volume/{app}/data", f"Volume/{app}/logs"))
    refused = applied.run("apply", "--plan", "the.plan", "--auto-approve", code=1)
    assert f"error[plan-moved]: `Volume/{app}/data`: the file plans" in refused.err
    assert addresses(applied) == [f"Volume/{app}/data"]


def test_an_apply_of_a_move_alone_tells_its_plan_once(applied: Project, app: str) -> None:
    applied.write(volume(app, "files") + moved(f"Volume/{app}/data", f"Volume/{app}/files"))
    applied.run("plan", "--out", "the.plan")
    saved = applied.run("apply", "--plan", "the.plan", "--auto-approve")
    applied.write(volume(app, "logs") + moved(f"Volume/{app}/files", f"Volume/{app}/logs"))
    plain = applied.run("apply", "--auto-approve")
    for ended in (saved, plain):
        told = [line for line in ended.out.splitlines()[1:] if not line.startswith("State head: ")]
        assert told == ["No changes: 1 resource is as declared."]
        assert ended.err.count("info[move-pending]") == 1
    assert addresses(applied) == [f"Volume/{app}/logs"]


def test_a_saved_plan_settles_an_open_call_before_it_is_compared(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    files = volume(app, "files", "region: ams, size_gb: 20")
    applied.write(files + moved(f"Volume/{app}/data", f"Volume/{app}/files"))
    applied.run("plan", "--out", "the.plan")
    applied.write(volume(app, spec="region: ams, size_gb: 20"))
    killed(applied, sandbox, "PUT", f"/v1/apps/{app}/volumes/*/extend")
    applied.write(files + moved(f"Volume/{app}/data", f"Volume/{app}/files"))
    ran = applied.json("apply", "--plan", "the.plan", "--auto-approve")
    assert ran.outcomes() == {f"Volume/{app}/files#extend": "done"}
    assert "plan-moved" not in {each["code"] for each in ran.json["diagnostics"]}
    assert applied.json("plan").json["changes"] == []
    assert addresses(applied) == [f"Volume/{app}/files"]
    assert sandbox.volume(app)["size_gb"] == 20


def test_state_mv_moves_all_of_a_count_as_the_entry_does(project: Project, app: str) -> None:
    project.write(volume(app, spec=f"{SPEC}, count: 2"))
    project.apply()
    old, new = f"Volume/{app}/data", f"Volume/{app}/files"
    told = project.run("state", "mv", old, new).out.splitlines()
    assert [re.sub(r" \(.*?\)", "", line) for line in told] == [
        f"{old} is now recorded as {new}",
        f"{old}[1] is now recorded as {new}[1]",
    ]
    project.write(volume(app, "files", spec=f"{SPEC}, count: 2"))
    assert project.json("plan").json["changes"] == []
    moved_one = project.json("state", "mv", f"{new}[1]", f"Volume/{app}/other").json
    assert [each["address"] for each in moved_one["records"]] == [f"Volume/{app}/other"]
    assert moved_one["record"] == moved_one["records"][0]


def test_a_resource_that_went_to_another_file_is_recognised_where_only_that_one_is_given(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    data, logs = volume(app), volume(app, "logs", "region: fra, size_gb: 10")
    orders = volume(app, "orders", "region: fra, size_gb: 10")
    project.write(data + logs, "manifests/data.yaml")
    project.apply()
    project.write(data, "manifests/data.yaml")
    project.write(orders, "manifests/orders.yaml")
    refused = project.run("apply", "manifests/orders.yaml", "--auto-approve", code=1)
    assert f"error[renamed]: `Volume/{app}/orders` may be `Volume/{app}/logs`" in refused.err
    # Wherever it stands by now, it has not left.
    project.write(logs, "manifests/others.yaml")
    plan = project.json("plan", "manifests/orders.yaml").json
    assert plan["summary"]["create"] == 1
    assert plan["diagnostics"] == []
    # Nor has what is there with a mistake.
    project.write(logs.replace("size_gb: 10", "size_gb: ten"), "manifests/others.yaml")
    assert project.json("plan", "manifests/orders.yaml").json["summary"]["create"] == 1
    assert len(sandbox.volumes(app)) == 2


def test_a_move_in_a_file_that_was_not_given_is_named_where_it_is_missed(applied: Project, app: str) -> None:
    applied.write(volume(app, "files"))
    applied.write(moved(f"Volume/{app}/data", f"Volume/{app}/files"), "manifests/moved.yaml")
    refused = only(applied.json("plan", "manifests/main.yaml", code=1).json["diagnostics"])
    assert refused["code"] == "renamed"
    assert refused["help"] == (
        f"`Moved/m` in manifests/moved.yaml says where Volume/{app}/data moved: pass that file, too"
    )
    assert applied.json("plan", "manifests/main.yaml", "manifests/moved.yaml").json["changes"] == []


def test_two_exchange_their_names_with_the_commands_that_the_help_names(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    data, logs = volume(app), volume(app, "logs", "region: fra, size_gb: 10")
    project.write(data + logs)
    project.apply()
    before = {each["name"]: each["id"] for each in sandbox.volumes(app)}
    exchanged = volume(app, "logs", f"name: data, {SPEC}")
    exchanged += volume(app, "data", "name: logs, region: fra, size_gb: 10")
    entries = moved(f"Volume/{app}/data", f"Volume/{app}/logs", "one")
    entries += moved(f"Volume/{app}/logs", f"Volume/{app}/data", "two")
    project.write(exchanged + entries)
    refused = project.run("plan", code=1)
    assert "error[move-of-declared]" in refused.err
    told = " ".join(refused.err.split())
    commands = re.findall(
        r"reconcile (state mv \S+ [^\s`]+)", told[: told.index("`", told.index("run `") + 5)]
    )
    assert len(commands) == 3
    for command in commands:
        project.run(*command.split())
    project.write(exchanged)
    assert project.json("plan").json["changes"] == []
    records = project.json("state", "list").json["records"]
    assert {each["address"]: each["id"] for each in records} == {
        f"Volume/{app}/logs": before["data"],
        f"Volume/{app}/data": before["logs"],
    }


def test_a_move_to_the_same_address_is_a_slip_and_no_reason_to_drop_the_record(
    applied: Project, app: str
) -> None:
    refused = applied.run("state", "mv", f"Volume/{app}/data", f"Volume/{app}/data", code=1)
    assert f"FROM and TO are the same address, `Volume/{app}/data`" in refused.err
    assert "forget" not in refused.err
    assert addresses(applied) == [f"Volume/{app}/data"]


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("PostgresCluster/a b", "letters, digits"),
        ("PostgresCluster/-x", "letters, digits"),
        (f"PostgresCluster/{'n' * 64}", "letters, digits"),
        ("PostgresCluster/x[3]", "the kind PostgresCluster has no `count`"),
        ("Secret/shop/A B", "letters, digits"),
    ],
)
def test_no_record_moves_to_an_address_that_no_manifest_can_have(
    reconcile: Command, target: str, told: str
) -> None:
    source = target.rpartition("/")[0] + "/orders"
    refused = reconcile(f"state mv {source} '{target}'", code=64)
    assert f"`{target}` is not an address that a manifest can have: " in refused.err
    assert told in refused.err
    reconcile("state init")
    assert "is not recorded" in reconcile(f"state mv '{target}' {source}", code=1).err

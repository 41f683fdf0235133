"""Plans of a change only: what it does not touch is left out, and still known."""

import json
from itertools import count

import pytest

from tests.cli.harness import TOKEN, Sandbox, serving
from tests.inprocess import Command, secret, volume
from tests.revisions.repository import commit, git
from tests.state.doubles import make_state

_numbers = count(1)


@pytest.fixture
def applied(reconcile: Command, sandbox: Sandbox) -> Command:
    """The two volumes of `main`, in an app of their own, are applied; `work` is checked out."""
    app = sandbox.app(f"app{next(_numbers)}")
    reconcile.write("manifests/data.yaml", volume("data", app=app))
    reconcile.write("manifests/logs.yaml", volume("logs", app=app, more=", snapshot_retention: 5"))
    reconcile.write(".gitignore", ".reconcile/\n")
    commit(reconcile.root)
    git(reconcile.root, "checkout", "-q", "-b", "work")
    make_state(reconcile.root)
    reconcile.variables |= {
        "RECONCILE_BASE_URL": sandbox.url,
        "RECONCILE_TOKEN": TOKEN,
        "RECONCILE_SETTLE_S": "1",
        "RECONCILE_CAPABILITIES": "extended",
        "APP": app,
    }
    reconcile("apply --auto-approve")
    return reconcile


def app_of(command: Command) -> str:
    return command.variables["APP"]


def actions(command: Command, options: str = "--changed-since main", code: int = 0) -> dict[str, str]:
    """Actions by the names of the resources, from the JSON of a plan."""
    plan = json.loads(command(f"plan {options} -o json", code=code).out)
    return {change["address"].split("/")[-1]: change["action"] for change in plan["changes"]}


def test_drift_and_changes_elsewhere_are_left_out(applied: Command, sandbox: Sandbox) -> None:
    app = app_of(applied)
    other = applied.write("elsewhere/other.yaml", volume("other", app=app))
    assert actions(applied) == {}
    assert actions(applied, "--changed-since main elsewhere manifests") == {"other": "create"}
    other.unlink()
    applied.write("manifests/data.yaml", volume("data", app=app, size_gb=20))
    (logs,) = [each for each in sandbox.volumes(app) if each["name"] == "logs"]
    sandbox.edit_volume(logs["id"], snapshot_retention=3)
    assert actions(applied, "") == {"data": "extend", "logs": "update"}
    assert actions(applied) == {"data": "extend"}


def test_a_manifest_that_left_is_retained_or_deleted_and_others_records_are_untouched(
    applied: Command,
) -> None:
    (applied.root / "manifests/logs.yaml").unlink()
    assert actions(applied) == {"logs": "retain"}
    commit(applied.root)
    applied.write("manifests/data.yaml", volume("data", app=app_of(applied), size_gb=20))
    assert actions(applied, "--changed-since work") == {"data": "extend"}
    applied("plan --changed-since work --out saved.plan")
    applied("apply --plan saved.plan --auto-approve")
    recorded = json.loads(applied("state list -o json").out)["records"]
    assert {record["address"].split("/")[-1] for record in recorded} == {"data", "logs"}


def test_a_secret_that_the_branch_rotates_and_a_field_it_takes_back_are_planned(
    applied: Command, sandbox: Sandbox
) -> None:
    app = app_of(applied)
    logs = volume("logs", app=app, more=", snapshot_retention: 5")
    ignored = f"{logs}lifecycle: {{ignore: [{{field: snapshot_retention, reason: theirs}}]}}\n"
    applied.write("manifests/logs.yaml", ignored)
    applied.write("manifests/pw.yaml", secret("PW", "file: pw.txt", app=app))
    applied.write("manifests/pw.txt", "first-value")
    commit(applied.root)
    applied("apply --auto-approve")
    (live,) = [each for each in sandbox.volumes(app) if each["name"] == "logs"]
    sandbox.edit_volume(live["id"], snapshot_retention=3)
    assert actions(applied, "--changed-since work") == {}
    applied.write("manifests/pw.txt", "other-value")
    applied.write("manifests/logs.yaml", logs)
    assert actions(applied, "--changed-since work") == {"PW": "set", "logs": "update"}


def test_what_leaves_with_a_folder_that_gets_another_name_is_deleted(applied: Command) -> None:
    """Otherwise a deletion that was merged would never be planned."""
    logs = volume("logs", app=app_of(applied), more=", snapshot_retention: 5")
    applied.write("manifests/logs.yaml", f"{logs}lifecycle: {{deletion: delete}}\n")
    commit(applied.root)
    applied("apply --auto-approve")
    (applied.root / "manifests").rename(applied.root / "deploy")
    (applied.root / "deploy/logs.yaml").unlink()
    applied.write("reconcile.yaml", "manifests: [deploy]\n")
    assert actions(applied, "--changed-since work") == {"logs": "delete"}


def test_values_of_what_is_not_planned_are_still_known(applied: Command) -> None:
    app = app_of(applied)
    applied.write("manifests/url.yaml", secret("URL", f'template: "id-${{Volume/{app}/data:id}}"', app=app))
    assert actions(applied) == {"URL": "set"}
    applied("plan --changed-since main --out saved.plan")
    told = applied("apply --plan saved.plan --auto-approve").out
    assert f"Secret/{app}/URL" in told
    assert actions(applied) == {}
    assert actions(applied, "") == {}


def test_what_is_needed_and_not_there_refuses_the_plan(applied: Command) -> None:
    app = app_of(applied)
    applied.write("manifests/new.yaml", volume("new", app=app))
    commit(applied.root)
    applied.write("manifests/url.yaml", secret("URL", f'template: "id-${{Volume/{app}/new:id}}"', app=app))
    told = applied("plan --changed-since work --out saved.plan", code=1).err
    assert f"error[needs-unplanned]: `Secret/{app}/URL` needs `Volume/{app}/new`" in told
    assert "which is not part of this plan: it does not exist" in told
    assert not (applied.root / "saved.plan").exists()
    assert actions(applied, "") == {"new": "create", "URL": "set"}


def test_what_is_needed_and_still_being_made_refuses_the_plan(applied: Command) -> None:
    app = app_of(applied)
    with serving("--clock", "manual", "--profile", "extended") as still:
        still.app(app)
        applied.variables |= {"RECONCILE_BASE_URL": still.url, "RECONCILE_STATE": "sqlite:still.db"}
        applied.write(
            "manifests/orders.yaml",
            "apiVersion: reconciler/v1\nkind: PostgresCluster\nmetadata: {name: orders}\n"
            "spec: {org_slug: personal, plan: basic, region: ams}\nlifecycle: {timeout_s: 1}\n",
        )
        commit(applied.root)
        applied("state init")
        applied("apply manifests/orders.yaml --auto-approve", code=4)
        template = 'template: "${PostgresCluster/orders:endpoints.primary.pooler.host}"'
        applied.write("manifests/url.yaml", secret("URL", template, app=app))
        told = applied("plan --changed-since work", code=1).err
        assert f"`Secret/{app}/URL` needs `PostgresCluster/orders`" in told
        assert "it is still being created" in told


def test_an_object_that_may_be_somebody_elses_is_not_adopted(applied: Command, sandbox: Sandbox) -> None:
    app = app_of(applied)
    sandbox.make_volume(app, "shared", size_gb=10)
    applied.write("manifests/one.yaml", volume("one", app=app, more=", name: shared"))
    commit(applied.root)
    applied.write("manifests/two.yaml", volume("two", app=app, more=", name: shared"))
    assert actions(applied, "", code=1) == {"one": "refused", "two": "refused"}
    assert actions(applied, "--changed-since work", code=1) == {"two": "refused"}


def test_a_plan_at_a_revision_is_of_its_manifests(applied: Command) -> None:
    app = app_of(applied)
    applied.write("manifests/data.yaml", volume("data", app=app, size_gb=20))
    (applied.root / "manifests/logs.yaml").unlink()
    assert actions(applied, "--ref main") == {}
    assert actions(applied, "") == {"data": "extend", "logs": "retain"}
    commit(applied.root)
    applied("plan --ref work --out saved.plan")
    git(applied.root, "checkout", "-q", "main")
    for options, here in (("", "of the working tree"), ("--ref main", "main")):
        told = applied(f"apply --plan saved.plan --auto-approve {options}", code=1).err
        assert f"error[plan-moved]: the file was made for the revision work, not {here}\n" in told
    assert actions(applied, "--ref work") == {"data": "extend", "logs": "retain"}
    applied("apply --plan saved.plan --auto-approve --ref work")
    assert actions(applied, "--ref work") == {"logs": "retain"}


def test_what_stands_elsewhere_at_a_revision_has_not_left_the_manifests(applied: Command) -> None:
    """Otherwise a lifecycle that says delete would delete it."""
    (applied.root / "manifests/logs.yaml").unlink()
    plan = json.loads(applied("plan --ref main manifests/data.yaml -o json").out)
    assert (plan["changes"], plan["outside"]) == ([], 1)


def test_refusals_of_an_environment_point_into_its_overlay(applied: Command, sandbox: Sandbox) -> None:
    app = app_of(applied)
    prod = sandbox.app(f"{app}-prod")
    overlay = f'"*/{app}/*":\n  metadata: {{app: {prod}}}\nVolume/{app}/data:\n  spec: {{size_gb: 20}}\n'
    applied.write("overlays/prod/a.yaml", overlay)
    applied("state init --env prod")
    applied("apply --env prod --auto-approve")
    assert [each["size_gb"] for each in sandbox.volumes(prod) if each["name"] == "data"] == [20]
    assert actions(applied, "--env base") == {}
    applied.write("overlays/prod/a.yaml", overlay.replace("20", "15"))
    told = applied("plan --env prod", code=1).err
    assert "error[volume-shrink]" in told
    assert "--> overlays/prod/a.yaml:4:19" in told


def test_a_plan_of_one_environment_is_not_run_in_another(applied: Command, sandbox: Sandbox) -> None:
    app = app_of(applied)
    prod = sandbox.app(f"{app}-prod")
    for name in ("prod", "test"):
        applied.write(f"overlays/{name}/a.yaml", f'"*/{app}/*":\n  metadata: {{app: {prod}}}\n')
        applied(f"state init --env {name}")
    applied("plan --env prod --out saved.plan")
    for name in ("test", "base"):
        told = applied(f"apply --plan saved.plan --auto-approve --env {name}", code=1).err
        assert f"this plan was made for environment `prod`, but `{name}` is chosen; nothing was" in told
    assert sandbox.volumes(prod) == []
    applied("apply --plan saved.plan --auto-approve --env prod")
    applied("plan --env base --out saved.plan")
    told = applied("apply --plan saved.plan --auto-approve --env prod", code=1).err
    assert "this plan was made for environment `base`, but `prod` is chosen; nothing was changed" in told

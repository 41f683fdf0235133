"""Who is told how a run ended: real messages over HTTP to a receiver that checks signatures."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.cli.harness import TOKEN, Sandbox, cluster, serving
from tests.inprocess import Command, secret, volume
from tests.notify.receiver import SECRET, Receiver, receiving
from tests.state.doubles import word_of

RETENTION = ", snapshot_retention: 5"
SLACK_PATH = "/services/T000/B000/very-secret-path"
_numbers = count(1)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with serving("--clock", "x600") as sandbox:
        yield sandbox


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def project(
    tmp_path: Path,
    sandbox: Sandbox,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Command]:
    """One volume is applied; three receivers want all events."""
    command = Command(tmp_path, monkeypatch, capsys)
    app = sandbox.app(f"told{next(_numbers)}")
    command.variables |= {
        "RECONCILE_BASE_URL": sandbox.url,
        "RECONCILE_TOKEN": TOKEN,
        "RECONCILE_SETTLE_S": "0.2",
        "XDG_STATE_HOME": str(tmp_path / "marks"),
        "APP": app,
        "HOOK_SECRET": SECRET,
        "SLACK_URL": f"{receiver.url}{SLACK_PATH}",
    }
    command.write("manifests/data.yaml", volume("data", app, more=RETENTION))
    command("state init")
    command("apply --auto-approve")
    events = "on: [drift, failed, owed, question, warning]"
    command.write(
        "reconcile.yaml",
        "notify:\n"
        f"  - {{{events}, url: '{receiver.url}/json', secret_from: {{env: HOOK_SECRET}}}}\n"
        f"  - {{{events}, format: cloudevents, url: '{receiver.url}/ce', "
        "secret_from: {file: hook.secret}}\n"
        f"  - {{{events}, format: slack, url_from: {{env: SLACK_URL}}}}\n",
    )
    command.write("hook.secret", f"{SECRET}\n")
    yield command
    sandbox.clear_faults()


def by_path(receiver: Receiver) -> dict[str, list[str]]:
    """The types of the messages, by whom they went to; for Slack its first lines."""
    found: dict[str, list[str]] = {}
    for got in receiver.got:
        body = got.json
        found.setdefault(got.path, []).append(body.get("type") or body["text"].splitlines()[0])
    return found


def test_drift_is_told_in_each_format_and_signed(
    project: Command, sandbox: Sandbox, receiver: Receiver
) -> None:
    app = project.variables["APP"]
    project("drift")
    assert receiver.got == []
    sandbox.edit_volume(sandbox.volume(app)["id"], snapshot_retention=3)
    ended = project("drift", code=2)
    assert "notif" not in ended.err
    plain, cloud, slack = (
        next(got for got in receiver.got if got.path == path) for path in ("/json", "/ce", SLACK_PATH)
    )
    assert len(receiver.got) == 3
    assert plain.is_signed()
    assert cloud.is_signed()
    assert not plain.is_signed(SECRET.replace("A", "B"))
    assert "webhook-signature" not in slack.headers
    data = plain.json["data"]
    assert plain.json["type"] == "reconcile.drift"
    (item,) = data["items"]
    assert item["address"] == f"Volume/{app}/data"
    assert item["what"] == "changed on the platform, not by us; snapshot_retention: 5 -> 3"
    assert item["place"] == "manifests/data.yaml:4:18"
    assert (data["verb"], data["environment"], data["exit_code"]) == ("drift", "base", 2)
    assert data["summary"] == "Drift in 1 of 1 recorded object."
    assert cloud.headers["content-type"] == "application/cloudevents+json"
    assert cloud.json["data"] == data
    assert cloud.json["id"] == cloud.headers["webhook-id"]
    assert cloud.json["source"] == "/reconcile/base"
    assert slack.json["text"].splitlines()[0] == f"*Drift* in `base` (`{sandbox.url}`)"
    assert f"• `Volume/{app}/data`: `{item['what']}`".replace(">", "&gt;") in slack.json["text"]


def test_an_apply_tells_what_failed_and_what_is_owed(
    project: Command, sandbox: Sandbox, receiver: Receiver
) -> None:
    app = project.variables["APP"]
    sandbox.machine(app, sandbox.volume(app)["id"])
    project.write("manifests/data.yaml", volume("data", app, 20, RETENTION))
    project("apply --auto-approve")
    assert by_path(receiver)["/json"] == ["reconcile.owed"]
    receiver.got.clear()
    project.write("manifests/more.yaml", volume("more", app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "status", status=422)
    project("apply --auto-approve", code=1)
    told = by_path(receiver)
    assert "reconcile.failed" in told["/json"]
    failed = next(got.json for got in receiver.got if got.json.get("type") == "reconcile.failed")
    (item,) = failed["data"]["items"]
    assert item["address"] == f"Volume/{app}/more"
    assert item["what"].startswith("create failed: ")
    assert item["place"] == "manifests/more.yaml:4:18"
    (run, *_) = json.loads(project("history -o json").out)["runs"]
    assert failed["data"]["run"] == run["id"]


def test_an_apply_tells_a_question_with_the_commands_to_type(
    project: Command, sandbox: Sandbox, receiver: Receiver
) -> None:
    name = f"db-{project.variables['APP']}"
    project.write("manifests/db.yaml", cluster(name))
    sandbox.fault("POST", "/v1/postgres", "drop_after")
    approved = f"PostgresCluster/{name}@{word_of(project.root)}"
    project(f"apply --auto-approve --approve-create {approved}", code=3)
    (question,) = [
        got.json for got in receiver.got if got.path == "/json" and got.json["type"] == "reconcile.question"
    ]
    (item,) = question["data"]["items"]
    assert item["address"] == f"PostgresCluster/{name}"
    assert item["what"].startswith(
        f"the outcome of POST /v1/postgres for `PostgresCluster/{name}` is unknown"
    )
    assert question["data"]["run"]
    command = f"reconcile resolve PostgresCluster/{name}"
    assert f"run one of: {command} --adopt ID, {command} --not-created" in item["what"]
    assert item["place"] == "manifests/db.yaml:4:18"


def test_a_rule_that_gets_weaker_is_told(project: Command, receiver: Receiver) -> None:
    settings = (project.root / "reconcile.yaml").read_text()
    project.write("reconcile.yaml", f"{settings}approvals: {{rules: [{{when: {{action: delete}}}}]}}\n")
    project("apply --auto-approve")
    assert receiver.got == []
    project.write("reconcile.yaml", settings)
    project("apply --auto-approve")
    assert by_path(receiver)["/json"] == ["reconcile.warning"]
    (items,) = (got.json["data"]["items"] for got in receiver.got if got.path == "/json")
    assert "the rule {action: delete} (from: 1, valid: 24h) is gone" in str(items)
    receiver.got.clear()
    project("apply --auto-approve")
    assert receiver.got == []


def test_a_run_that_cannot_begin_is_told(project: Command, receiver: Receiver) -> None:
    project.variables["RECONCILE_TOKEN"] = "wrong"
    project.write("manifests/more.yaml", volume("more", project.variables["APP"]))
    project("apply --auto-approve", code=1)
    assert by_path(receiver)["/json"] == ["reconcile.failed"]
    receiver.got.clear()
    project.write("manifests/broken.yaml", "kind: [")
    project("drift", code=1)
    (failed,) = [got.json for got in receiver.got if got.path == "/json"]
    (item,) = failed["data"]["items"]
    assert item["what"].startswith("error[yaml-syntax]: ")
    assert item["place"] == "manifests/broken.yaml:1:8"


def test_a_refused_plan_is_told_with_its_object_its_sentence_and_its_place(
    project: Command, receiver: Receiver
) -> None:
    app = project.variables["APP"]
    project.write("manifests/data.yaml", volume("data", app, 20))
    project("apply --auto-approve")
    project.write("manifests/data.yaml", volume("data", app, 10))
    receiver.got.clear()
    project("apply --auto-approve", code=1)
    (failed,) = [got.json for got in receiver.got if got.path == "/json"]
    (item,) = failed["data"]["items"]
    assert item["address"] == f"Volume/{app}/data"
    assert item["what"] == "error[volume-shrink]: volume `data` cannot shrink from 20 GB to 10 GB"
    assert item["place"].startswith("manifests/data.yaml:")


def test_a_destroyed_volume_without_a_manifest_is_told_with_what_is_left_of_it(
    project: Command, sandbox: Sandbox, receiver: Receiver
) -> None:
    app = project.variables["APP"]
    (project.root / "manifests/data.yaml").unlink()
    project("apply --auto-approve")
    sandbox.call("DELETE", f"/v1/apps/{app}/volumes/{sandbox.volume(app)['id']}")
    project("drift", code=2)
    (drift,) = [got.json for got in receiver.got if got.path == "/json"]
    moved, left = drift["data"]["items"]
    assert moved["address"] == left["address"] == f"Volume/{app}/data"
    assert left["what"].startswith(f"warning[object-destroyed]: `Volume/{app}/data` (")
    assert "snapshot" in left["what"]
    assert f"reconcile state forget Volume/{app}/data" in left["what"]


def test_what_an_apply_refuses_is_told_with_its_object_and_its_place(
    project: Command, receiver: Receiver
) -> None:
    app = project.variables["APP"]
    settings = (project.root / "reconcile.yaml").read_text()
    project.write("reconcile.yaml", f"{settings}approvals: {{rules: [{{when: {{action: create}}}}]}}\n")
    project.write("allowed_signers", "")
    project.write("manifests/more.yaml", volume("more", app))
    project.write("manifests/key.yaml", secret("KEY", "env: NOT_SET", app))
    project(f"apply --auto-approve --approve-delete Volume/{app}/data", code=1)
    (failed,) = [got.json for got in receiver.got if got.json.get("type") == "reconcile.failed"][:1]
    told = {item["what"].split("]")[0]: (item["address"], item["place"]) for item in failed["data"]["items"]}
    assert told["error[secret-source"] == (f"Secret/{app}/KEY", "manifests/key.yaml:5:20")
    assert told["error[approval-needed"] == (f"Volume/{app}/more", "manifests/more.yaml:4:18")
    assert told["error[unknown-approval"] == (f"Volume/{app}/data", "manifests/data.yaml:4:18")


def test_only_the_events_that_somebody_wants_are_sent(
    project: Command, sandbox: Sandbox, receiver: Receiver
) -> None:
    project.write("reconcile.yaml", "notify: [{on: [owed], format: slack, url_from: {env: SLACK_URL}}]\n")
    sandbox.edit_volume(sandbox.volume(project.variables["APP"])["id"], snapshot_retention=3)
    project("drift", code=2)
    assert receiver.got == []


def test_a_receiver_that_is_busy_is_asked_again_with_the_same_id(
    project: Command, sandbox: Sandbox, receiver: Receiver
) -> None:
    project.write(
        "reconcile.yaml",
        f"notify: [{{on: [drift], url: '{receiver.url}/json', secret_from: {{env: HOOK_SECRET}}}}]\n",
    )
    sandbox.edit_volume(sandbox.volume(project.variables["APP"])["id"], snapshot_retention=3)
    receiver.answers[:] = [503, 429]
    assert "notify" not in project("drift", code=2).err
    assert len(receiver.got) == 3
    assert len({got.headers["webhook-id"] for got in receiver.got}) == 1
    assert all(got.is_signed() for got in receiver.got)


@pytest.mark.parametrize("status", [302, 404])
def test_a_message_that_is_refused_is_told_without_its_address_and_changes_no_exit_code(
    project: Command, sandbox: Sandbox, receiver: Receiver, status: int
) -> None:
    project.write("reconcile.yaml", "notify: [{on: [drift], format: slack, url_from: {env: SLACK_URL}}]\n")
    sandbox.edit_volume(sandbox.volume(project.variables["APP"])["id"], snapshot_retention=3)
    receiver.answers[:] = [status]
    ended = project("drift -o json", code=2)
    assert f"warning: could not deliver `drift` to `notify.0`: {receiver.url[7:]} answered" in ended.err
    assert "very-secret-path" not in ended.out + ended.err
    assert [got.path for got in receiver.got] == [SLACK_PATH]
    assert json.loads(ended.out)["changes"]


@pytest.mark.parametrize(
    ("url", "secret", "told"),
    [
        ("http://hooks.example.com/very-secret", SECRET, "does not begin with https://"),
        ("https://user:very-secret@hooks.example.com/", SECRET, "the address is not one such as"),
        ("https://hooks.example.com:99999/very-secret", SECRET, "the address is not one such as"),
        ("very-secret", SECRET, "the address is not one such as"),
        ("", SECRET, "`HOOK_URL`"),
        ("http://127.0.0.1:1/", "very-secret", "the secret is not `whsec_`"),
        ("http://127.0.0.1:1/", "whsec_dmVyeS1zZWNyZXQ=", "the secret is not `whsec_`"),
    ],
)
def test_a_bad_address_or_secret_is_told_and_never_shown(
    project: Command, sandbox: Sandbox, url: str, secret: str, told: str
) -> None:
    project.variables |= {"HOOK_URL": url, "HOOK_SECRET": secret}
    project.write(
        "reconcile.yaml",
        "notify: [{on: [drift], url_from: {env: HOOK_URL}, secret_from: {env: HOOK_SECRET}}]\n",
    )
    sandbox.edit_volume(sandbox.volume(project.variables["APP"])["id"], snapshot_retention=3)
    ended = project("drift", code=2)
    assert told in ended.err
    assert "very-secret" not in ended.out + ended.err
    assert secret.removeprefix("whsec_") not in ended.out + ended.err


def test_the_embedded_sandbox_and_a_person_who_says_no_tell_nobody(
    project: Command, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("manifests/broken.yaml", "kind: [")
    project("drift --sandbox", code=1)
    project("apply --sandbox --auto-approve", code=1)
    (project.root / "manifests/broken.yaml").unlink()
    project.write("manifests/more.yaml", volume("more", project.variables["APP"]))
    project("apply", code=64)
    project("plan")
    assert receiver.got == []


def test_the_variables_of_a_hook_are_no_value_of_a_secret(project: Command) -> None:
    for name in ("HOOK_SECRET", "SLACK_URL"):
        project.write("manifests/key.yaml", secret("KEY", f"env: {name}", project.variables["APP"]))
        if name == "SLACK_URL":
            assert f"`{name}`" in project("validate", code=1).err
        else:
            assert "own-credential" in project("validate", code=1).err

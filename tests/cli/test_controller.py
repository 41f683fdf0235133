"""The controller as a process: what it says of each scope, what it sends by itself, and how it ends."""

import json
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import anyio
import httpx
import pytest
from msgspec.structs import replace

from reconciler.cli.controller import _door as made_door
from reconciler.controller.loop import Controller
from tests.approvals.people import make
from tests.cli.harness import PATIENCE_S, Project, Running, Sandbox, cluster, volume
from tests.notify.receiver import SECRET, receiving
from tests.revisions.repository import ISOLATED, commit, git

pytestmark = pytest.mark.slow

DELETABLE = "lifecycle: {deletion: delete}\n"
LARGER = "region: ams, size_gb: 20"


@dataclass(eq=False)
class Log:
    """What a running controller tells, event by event."""

    running: Running

    def __iter__(self) -> Iterator[dict[str, Any]]:
        assert self.running.process.stderr is not None
        for line in self.running.process.stderr:
            assert line.startswith("{"), line
            yield json.loads(line)

    def until(self, event: str, **fields: Any) -> dict[str, Any]:
        """The next event of this name with these fields."""
        for told in self:
            if told["event"] == event and fields.items() <= told.items():
                return told
        raise AssertionError(f"it ended before {event} {fields}")

    def status(self, scope: str, status: str) -> str:
        """The reason of the next change of `scope` to this status."""
        reason: str = self.until("scope.changed", scope=scope, status=status)["reason"]
        return reason

    def ended(self, number: int = signal.SIGTERM) -> list[dict[str, Any]]:
        """The rest of what it tells once it gets this signal, which is no failure."""
        self.running.signal(number)
        rest = list(self)
        assert self.running.process.wait() == 0
        return rest


def settings(project: Project, mode: str = "observe", more: str = "") -> None:
    project.write(
        f"manifests: [manifests]\ncontroller: {{every: 1s, mode: {mode}}}\n{more}", "reconcile.yaml"
    )


@contextmanager
def controlling(project: Project, *options: str, first: str = "") -> Iterator[Log]:
    with project.started("controller", *options, first=first) as running:
        late = Timer(PATIENCE_S, running.process.kill)
        late.start()
        try:
            yield Log(running)
        finally:
            late.cancel()


def shown(project: Project, field: str) -> dict[str, Any]:
    """What `controller status` says in this field, by scope."""
    found = project.json("controller", "status").json["scopes"]
    return {each["scope"]: each[field] for each in found}


def statuses(project: Project) -> dict[str, str]:
    return shown(project, "status")


def proposals(project: Project) -> list[Path]:
    return sorted(project.root.glob(".reconcile/controller/proposals/*.plan.json"))


def test_it_tells_drift_from_what_it_could_not_see_and_sends_nothing(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    settings(applied)
    sent = sandbox.mutations_of(app)
    with controlling(applied) as log:
        log.status(app, "in-sync")
        sandbox.fault("GET", f"/v1/apps/{app}/*", "status", status=401, times=None)
        assert "401" in log.status(app, "unknown")
        sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=15)
        sandbox.clear_faults()
        assert log.status(app, "drifted") == f"Volume/{app}/data (size_gb)"
        log.running.until(lambda: statuses(applied) == {app: "drifted"})
        applied.write("kind: [", "manifests/broken.yaml")
        assert "yaml-syntax" in log.status(app, "unknown")
        log.running.until(lambda: statuses(applied) == {app: "unknown"})
        applied.remove("manifests/broken.yaml")
        log.status(app, "drifted")
        log.ended()
    assert sandbox.mutations_of(app) == sent


def test_what_it_could_not_see_at_all_is_kept_as_unknown(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    settings(applied)
    applied.run("controller", "--once")
    sandbox.fault("GET", f"/v1/apps/{app}/*", "status", status=401, times=None)
    applied.run("controller", "--once", code=1)
    sandbox.clear_faults()
    assert statuses(applied) == {app: "unknown"}


def test_one_look_tells_all_from_the_same_answers(applied: Project, sandbox: Sandbox, app: str) -> None:
    settings(applied)
    with sandbox.recording() as requests:
        applied.run("controller", "--once")
    read = [path for method, path in requests if method == "GET" and app in path]
    assert read
    assert len({*read}) == len(read)


def test_without_a_state_nothing_is_known(project: Project, app: str) -> None:
    settings(project)
    project.write(volume(app))
    shutil.rmtree(project.root / ".reconcile")
    told = project.run("controller", "--once", code=1).err
    assert '"status": "unknown"' in told
    assert "state-missing" in told


def test_it_sends_what_it_may_and_proposes_the_rest(
    project: Project, sandbox: Sandbox, app: str, tmp_path: Path
) -> None:
    ana = make(tmp_path, "ana")
    project.write(ana.line(), "allowed_signers")
    settings(project, "apply")
    project.write(volume(app) + volume(app, "old") + DELETABLE)
    project.apply()
    with controlling(project, "--listen", "127.0.0.1:0") as log:
        url = log.until("listening")["url"]
        log.status(app, "in-sync")
        project.write(volume(app, spec=LARGER))
        ended = log.until("apply.ended", scope=app)
        assert ended["done"] == 1
        log.status(app, "proposed")
        assert f"reconcile history {ended['run']}" in httpx.get(url).text
        assert {each["name"]: each["size_gb"] for each in sandbox.volumes(app)} == {"data": 20, "old": 10}
        (proposal,) = proposals(project)
        project.run("approve", str(proposal), "--yes", "--reason", "old", "--key", str(ana.key))
        log.status(app, "applying")
        log.status(app, "in-sync")
        assert [each["name"] for each in sandbox.volumes(app) if each["state"] == "created"] == ["data"]
        assert proposals(project) == []
        log.ended()


def test_what_no_list_shows_is_proposed_in_any_mode(project: Project, sandbox: Sandbox, app: str) -> None:
    settings(project, "apply")
    name = f"db-{app}"
    project.write(volume(app) + cluster(name))
    with controlling(project) as log:
        log.until("plan.proposed", scope="org/personal")
        log.status(app, "in-sync")
        log.ended()
    assert sandbox.clusters(name) == []
    assert len(sandbox.volumes(app)) == 1


def test_an_approval_that_does_not_count_changes_nothing(
    project: Project, sandbox: Sandbox, app: str, tmp_path: Path
) -> None:
    eve = make(tmp_path, "eve")
    project.write(make(tmp_path, "ana").line(), "allowed_signers")
    settings(project, "propose")
    project.write(volume(app))
    with controlling(project) as log:
        log.until("plan.proposed", scope=app)
        (proposal,) = proposals(project)
        signers = project.write(eve.line(), "signers")
        ran = project.run(
            *("approve", str(proposal), "--yes", "--reason", "x", "--key", str(eve.key)),
            env={"RECONCILE_ALLOWED_SIGNERS": str(signers)},
            code=None,
        )
        assert ran.code in (0, 1)
        log.running.until(
            lambda: "does not" in shown(project, "reason").get(app, "") or not approvals(proposal)
        )
        log.ended()
    assert sandbox.volumes(app) == []


def approvals(proposal: Path) -> list[Path]:
    return sorted(proposal.parent.glob(f"{proposal.name}.*.approval"))


def test_an_apply_of_a_scope_that_people_suspend_begins_no_call_any_more(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    settings(project, "apply", "execution: {concurrency: 1}\n")
    project.write("".join(volume(app, name) for name in ("one", "two", "three")))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=8)
    with controlling(project) as log:
        log.running.until(sandbox.fault_taken)
        project.run("controller", "suspend", app, "--reason", "we look into it")
        assert log.until("apply.ended", scope=app)["skipped"] == 2
        assert log.status(app, "suspended") == "we look into it"
        log.ended()
    assert len(sandbox.volumes(app)) == 1


def test_people_suspend_resume_and_ask_at_once(applied: Project, sandbox: Sandbox, app: str) -> None:
    settings(applied, "apply")
    with controlling(applied) as log:
        log.status(app, "in-sync")
        assert "--reason" in applied.run("controller", "suspend", app, code=64).err
        applied.run("controller", "suspend", app, "--reason", "we look into it")
        assert statuses(applied) == {app: "suspended"}
        assert log.status(app, "suspended") == "we look into it"
        applied.write(volume(app, spec=LARGER))
        assert "is not a scope" in applied.run("controller", "now", "nonesuch", code=1).err
        assert sandbox.volume(app)["size_gb"] == 10
        applied.run("controller", "resume", app)
        log.status(app, "applying")
        log.status(app, "in-sync")
        log.ended()
    applied.write("manifests: [manifests]\ncontroller: {every: 1h}\n", "reconcile.yaml")
    before = shown(applied, "last_success")
    with controlling(applied) as log:
        log.running.until(lambda: shown(applied, "last_success") != before)
        sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=15)
        applied.run("controller", "now", app)
        log.status(app, "drifted")
        log.ended()


def test_a_scope_at_which_somebody_works_is_locked(applied: Project, sandbox: Sandbox, app: str) -> None:
    settings(applied, "apply")
    applied.write(volume(app, spec=LARGER))
    sandbox.fault("PUT", f"/v1/apps/{app}/*", "delay", delay_s=30)
    with applied.started_apply() as applying:
        applying.until(sandbox.fault_taken)
        with controlling(applied) as log:
            assert "is at work" in log.status(app, "locked")
            applying.kill()
            log.status(app, "in-sync")
            log.ended()
    assert sandbox.volume(app)["size_gb"] == 20


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_a_signal_lets_the_call_under_way_end(
    project: Project, sandbox: Sandbox, app: str, number: int
) -> None:
    settings(project, "apply")
    project.write(volume(app) + volume(app, "more"))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=2, times=2)
    with controlling(project) as log:
        log.running.until(sandbox.fault_taken)
        told = log.ended(number)
    assert any(each["event"] == "apply.ended" for each in told)
    assert len(sandbox.volumes(app)) == 2
    assert "No changes" in project.run("plan").out


def test_killed_in_mid_call_the_next_one_goes_on(project: Project, sandbox: Sandbox, app: str) -> None:
    settings(project, "apply")
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "delay", delay_s=30)
    with controlling(project) as log:
        log.running.until(lambda: bool(sandbox.volumes(app)))
        log.running.process.kill()
    with controlling(project) as log:
        log.status(app, "in-sync")
        log.ended()
    assert len(sandbox.volumes(app)) == 1
    assert "No changes" in project.run("plan").out


@pytest.fixture
def cloned(project: Project, app: str, tmp_path: Path) -> Project:
    """A project with a remote and a signer, whose controller uses what is signed there."""
    ana = make(tmp_path, "ana")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(project.root, "init", "-q", "-b", "main")
    git(project.root, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(project.root, "config", "gpg.format", "ssh")
    git(project.root, "config", "user.signingkey", str(ana.key))
    git(project.root, "config", "commit.gpgsign", "true")
    project.env |= ISOLATED
    project.write(".reconcile/\n", ".gitignore")
    project.write(f"ana {ana.key.with_suffix('.pub').read_text()}", "allowed_signers")
    source = "source: {ref: origin/main, fetch: 1s, verify: signed}"
    project.write(
        f"manifests: [manifests]\ncontroller: {{every: 1s, mode: apply, {source}}}\n", "reconcile.yaml"
    )
    project.write(volume(app))
    push(project)
    return project


def push(project: Project, *options: str) -> None:
    commit(project.root)
    git(project.root, "push", "-q", *options, "origin", "main")


def test_it_uses_what_is_merged_and_signed(cloned: Project, sandbox: Sandbox, app: str) -> None:
    with controlling(cloned) as log:
        log.status(app, "in-sync")
        cloned.write(volume(app, spec=LARGER))  # in the working tree alone, which is nobody's
        git(cloned.root, "config", "commit.gpgsign", "false")
        push(cloned)
        assert "source-unsigned" in log.until("source.unread")["reason"]
        assert sandbox.volume(app)["size_gb"] == 10
        git(cloned.root, "commit", "-q", "--amend", "-S", "-m", "signed")
        git(cloned.root, "push", "-qf", "origin", "main")
        log.status(app, "applying")
        log.status(app, "in-sync")
        assert sandbox.volume(app)["size_gb"] == 20
        log.ended()


def test_a_source_that_was_rewritten_waits_for_a_person(
    cloned: Project, sandbox: Sandbox, app: str, tmp_path: Path
) -> None:
    with controlling(cloned) as log:
        log.status(app, "in-sync")
        cloned.write(volume(app) + volume(app, "more"))
        commit(cloned.root)
        git(cloned.root, "commit", "-q", "--amend", "--no-edit")
        git(cloned.root, "reset", "-q", "--soft", "HEAD^")
        git(cloned.root, "commit", "-q", "--amend", "-m", "another history")
        git(cloned.root, "push", "-qf", "origin", "main")
        reason = log.until("source.unread")["reason"]
        assert len(sandbox.volumes(app)) == 1
        head = git(cloned.root, "rev-parse", "HEAD").strip()
        assert f"source-rewritten: main is {head} now" in reason  # `accept` takes the whole id
        cloned.run("controller", "accept", head)
        log.status(app, "applying")
        log.status(app, "in-sync")
        remote = tmp_path / "remote.git"
        remote.rename(tmp_path / "away")
        assert "git fetch failed" in log.until("source.unread")["reason"]
        (tmp_path / "away").rename(remote)
        log.ended()
    assert len(sandbox.volumes(app)) == 2


def test_people_are_told_once_and_a_heartbeat_says_that_all_was_seen(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    with receiving() as receiver:
        project.env["HOOK_SECRET"] = SECRET
        hook = f"{{on: [drift, silent], url: '{receiver.url}/hook', secret_from: {{env: HOOK_SECRET}}}}"
        settings(project, more=f"notify: [{hook}]\n")
        text = (project.root / "reconcile.yaml").read_text()
        heartbeat = f"heartbeat: {{url: '{receiver.url}/alive'}}, every"
        project.write(text.replace("every", heartbeat), "reconcile.yaml")
        project.write(volume(app))
        project.apply()
        with controlling(project) as log:
            log.status(app, "in-sync")
            log.running.until(lambda: any(got.path == "/alive" for got in receiver.got))
            sandbox.fault("GET", f"/v1/apps/{app}/*", "status", status=401, times=None)
            log.status(app, "unknown")
            before = len([got for got in receiver.got if got.path == "/alive"])
            log.running.until(lambda: any(got.path == "/hook" for got in receiver.got))
            assert len([got for got in receiver.got if got.path == "/alive"]) <= before + 1
            sandbox.edit_volume(sandbox.volume(app)["id"], size_gb=15)
            sandbox.clear_faults()
            log.running.until(lambda: len([got for got in receiver.got if got.path == "/hook"]) == 3)
            log.ended()
        told = [got.json for got in receiver.got if got.path == "/hook"]
    assert sorted(each["type"] for each in told) == [
        "reconcile.drift",
        "reconcile.silent",
        "reconcile.silent",
    ]
    assert "seen again" in str(told)


def test_what_a_rule_asks_people_about_is_not_sent(project: Project, sandbox: Sandbox, app: str) -> None:
    settings(project, "apply", "approvals: {rules: [{when: {action: extend}}]}\n")
    project.write(volume(app) + volume(app, "more"))
    with controlling(project) as log:
        log.status(app, "in-sync")
        project.write(volume(app, spec=LARGER) + volume(app, "more") + volume(app, "third"))
        log.until("plan.proposed", scope=app)
        assert "asks for the approval of 1 person" in log.status(app, "proposed")
        log.ended()
    assert {each["name"]: each["size_gb"] for each in sandbox.volumes(app)} == {
        "data": 10,
        "more": 10,
        "third": 10,
    }


async def ticks(project: Project, monkeypatch: pytest.MonkeyPatch, number: int) -> list[str]:
    """The events of so many ticks in this process: the first one is a round, others only look where due."""
    project.enter(monkeypatch)
    told: list[str] = []
    with ExitStack() as running:
        door = replace(
            made_door("", None, None, running, sandbox=False), tell=lambda name, **_: told.append(name)
        )
        controller = Controller(door, anyio.Event())
        for _ in range(number):
            async with anyio.create_task_group() as tasks:
                await controller._tick(tasks, once=False)
        await controller._state.close()
    return told


def test_a_question_that_only_a_person_can_answer_is_not_asked_with_each_tick(
    project: Project, sandbox: Sandbox, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"db-{app}"
    project.write(cluster(name))
    project.approve(f"PostgresCluster/{name}")
    sandbox.fault("POST", "/v1/postgres", "drop_after")
    project.apply(code=3)
    project.write("manifests: [manifests]\ncontroller: {every: 1h, mode: apply}\n", "reconcile.yaml")
    told = anyio.run(ticks, project, monkeypatch, 5)
    assert told.count("apply.ended") + told.count("apply.refused") <= 1, told
    assert len(sandbox.clusters(name)) == 1


def test_a_record_that_is_another_ones_to_change_is_not_tried_with_each_tick(
    project: Project, sandbox: Sandbox, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has left the manifests of a scope in which nothing is declared any more."""
    other = sandbox.app(f"{app}-other")
    project.write(volume(app) + volume(other))
    project.apply()
    project.write(volume(other))
    project.write("manifests: [manifests]\ncontroller: {every: 1h, mode: apply}\n", "reconcile.yaml")
    told = anyio.run(ticks, project, monkeypatch, 5)
    assert told.count("apply.ended") <= 1, told


def test_workers_share_the_scopes_and_take_over_those_of_one_that_died(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    apps = {app} | {sandbox.app(f"{app}-{number}") for number in range(7)}
    settings(project)
    project.write("".join(volume(each) for each in apps))
    project.apply()

    def grow(size_gb: int) -> None:
        for each in apps:
            sandbox.edit_volume(sandbox.volume(each)["id"], size_gb=size_gb)

    def share(log: Log) -> int:
        number = log.until("share.changed")["ours"]
        assert isinstance(number, int)
        return number

    with controlling(project, "--worker") as one:
        assert share(one) == len(apps)
        with controlling(project, "--worker") as two:
            shares = {one: share(one), two: share(two)}
            assert sum(shares.values()) == len(apps)
            grow(15)
            drifted = {
                log: {log.until("scope.changed", status="drifted")["scope"] for _ in range(number)}
                for log, number in shares.items()
            }
            assert drifted[one] | drifted[two] == apps
            assert not drifted[one] & drifted[two]
            two.running.until(lambda: {*statuses(project).values()} == {"drifted"})  # both have kept it
            two.running.process.kill()
            assert share(one) == len(apps)
            grow(10)
            assert {one.until("scope.changed", status="in-sync")["scope"] for _ in apps} == apps
        one.ended()
    with controlling(project, "--worker") as one:  # nobody is left behind who takes a share
        assert share(one) == len(apps)
        one.ended()


def test_a_signal_does_not_wait_for_a_remote_that_hangs(cloned: Project) -> None:
    git(cloned.root, "remote", "set-url", "origin", "git@git.example.com:shop.git")
    cloned.env["GIT_SSH_COMMAND"] = "sh -c 'touch asked; sleep 60'"
    with controlling(cloned) as log:
        asked = cloned.root / ".reconcile/controller/source/asked"
        log.running.until(asked.exists)
        began_s = time.monotonic()
        log.ended()
    assert time.monotonic() - began_s < 15


def test_each_environment_has_proposals_of_its_own(
    project: Project, sandbox: Sandbox, app: str, tmp_path: Path
) -> None:
    project.write(
        "manifests: [manifests]\ncontroller: {mode: propose}\nenvironments: {one: {}, two: {}}\n",
        "reconcile.yaml",
    )
    project.write(volume(app))
    both = ("--env", "one", "--env", "two")
    for name in ("one", "two"):
        project.run("state", "init", "--env", name)
    project.run("controller", *both, "--once", "--out", str(tmp_path / "out"))
    found = sorted(file.parent.name for file in tmp_path.glob("out/*/*.plan.json"))
    assert found == ["one", "two"]
    for name in ("one", "two"):
        told = project.json("controller", "status", "--env", name).json["scopes"]
        assert [each["status"] for each in told] == ["proposed"]
    assert sandbox.volumes(app) == []

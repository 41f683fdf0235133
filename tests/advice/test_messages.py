"""What refusals and notices of real verbs advise, typed where they stand: not refused, either.

A situation yields the text that it leads to. Then it does what the text says to do first, and yields what the
words in capitals stand for. Alternatives are tried in a situation of their own each, steps one after another.
"""

import re
import shlex
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from reconciler.explanations import known_codes
from tests.approvals.people import make
from tests.cli.conftest import project_at
from tests.cli.harness import Project, Ran, Sandbox, cluster, volume
from tests.cli.test_state import damage, state_file
from tests.explain.pages import diagnostics_of, read_page
from tests.explain.pages import situation as situation_file
from tests.guardrails.limits import closed_now, written
from tests.revisions.repository import ISOLATED, commit, git
from tests.state.encryption.doubles import ANA

YES = {"apply": "--auto-approve", "restore": "--auto-approve", "approve": "--yes"}  # as on a terminal
OK = (0, 2, 3, 4)
_numbers = count(1)

pytestmark = pytest.mark.slow


@dataclass
class Scene:
    project: Project
    sandbox: Sandbox
    app: str

    @property
    def data(self) -> str:
        return f"Volume/{self.app}/data"

    def applied(self, *more: str) -> Project:
        self.project.write(volume(self.app) + "".join(more))
        self.project.apply()
        return self.project

    def backed_up(self) -> Path:
        file = self.project.root.parent / "backup.db"
        self.applied().run("state", "backup", str(file))
        return file

    def forgotten(self) -> str:
        """The file of a backup of the state, which is gone with all that told of it."""
        file = self.backed_up()
        shutil.rmtree(self.project.root / ".reconcile")
        return str(file)

    def lost(self, name: str) -> str:
        """What an apply says whose cluster's answer was lost."""
        self.project.write(cluster(name))
        self.project.approve(f"PostgresCluster/{name}")
        self.sandbox.fault("POST", "/v1/postgres", "drop_after")
        return text(self.project.run("apply", "--auto-approve", code=3))

    def examined(self) -> str:
        return text(self.project.run("doctor", code=None))


Steps = Generator[str | Mapping[str, str], None, None]
Situation = Callable[[Scene], Steps]


def text(ran: Ran) -> str:
    return ran.out + ran.err


def the_state_is_missing(scene: Scene) -> Steps:
    file = scene.forgotten()
    shutil.rmtree(Path(scene.project.env["XDG_STATE_HOME"]), ignore_errors=True)
    yield text(scene.project.run("apply", "--auto-approve", code=1))
    elsewhere = f"sqlite:{file}-elsewhere.db"
    scene.project.run("state", "init", "--state", elsewhere)
    yield {"FILE": file, "URL": elsewhere}


def the_state_is_missing_and_a_mark_tells(scene: Scene) -> Steps:
    file = scene.forgotten()
    yield text(scene.project.run("state", "init", code=1))
    yield {"FILE": file}


def the_state_is_an_older_copy(scene: Scene) -> Steps:
    private = scene.applied().root / ".reconcile"
    shutil.copytree(private, private.with_name("kept"))
    scene.applied(volume(scene.app, "logs"))
    shutil.rmtree(private)
    private.with_name("kept").rename(private)
    yield text(scene.project.run("plan", code=1))
    yield {}


def the_state_is_damaged(scene: Scene) -> Steps:
    scene.backed_up()
    state_file(scene.project).write_bytes(b"no database any more")
    yield text(scene.project.run("plan", code=1))
    yield {}


def a_record_was_altered(scene: Scene) -> Steps:
    scene.backed_up()
    damage(scene.project, "UPDATE lines SET line = CAST(replace(CAST(line AS TEXT), ':10', ':11') AS BLOB)")
    yield text(scene.project.run("plan", code=1))
    yield {}


def rows_were_lost(scene: Scene) -> Steps:
    file = scene.backed_up()
    scene.applied(volume(scene.app, "logs"))
    shutil.rmtree(scene.project.root / ".reconcile" / "state.db.backups")
    state_file(scene.project).write_bytes(b"no database any more")
    scene.project.run("state", "restore", str(file), "--auto-approve")
    yield text(scene.project.run("state", "list")) + text(scene.project.run("plan")) + scene.examined()
    yield {}


def a_scope_is_locked(scene: Scene) -> Steps:
    scene.applied()
    scene.project.write(volume(scene.app, spec="region: ams, size_gb: 20"))
    scene.sandbox.fault("PUT", f"/v1/apps/{scene.app}/*", "delay", delay_s=30)
    with scene.project.started_apply() as running:
        running.until(scene.sandbox.fault_taken)
        yield text(scene.project.run("apply", "--auto-approve", code=5)) + scene.examined()
        yield {}


def the_platform_is_another_one(scene: Scene) -> Steps:
    scene.applied()
    scene.project.env["RECONCILE_BASE_URL"] = scene.sandbox.url.replace("127.0.0.1", "localhost")
    yield text(scene.project.run("plan", code=1))
    yield {}


def a_create_needs_a_name(scene: Scene) -> Steps:
    file = scene.backed_up()
    scene.project.write(volume(scene.app) + cluster(f"db-{scene.app}"))
    yield text(scene.project.run("apply", "--auto-approve", code=1))
    yield {"FILE": str(file)}


def the_answer_to_a_create_was_lost(scene: Scene) -> Steps:
    name = f"db-{scene.app}"
    yield scene.lost(name) + scene.examined()
    yield {"ID": scene.sandbox.clusters(name)[0]["id"]}


def two_objects_may_be_what_a_create_made(scene: Scene) -> Steps:
    scene.project.write(volume(scene.app))
    scene.sandbox.fault("POST", f"/v1/apps/{scene.app}/volumes", "delay", delay_s=30)
    with scene.project.started_apply() as running:
        running.until(lambda: bool(scene.sandbox.volumes(scene.app)))
        id = scene.sandbox.make_volume(scene.app, "data", size_gb=10)
        running.kill()
    yield text(scene.project.run("apply", "--auto-approve", code=3))
    yield {"ID": id}


def a_restart_is_owed(scene: Scene) -> Steps:
    scene.applied()
    scene.sandbox.machine(scene.app, scene.sandbox.volume(scene.app)["id"])
    scene.project.write(volume(scene.app, spec="region: ams, size_gb: 20"))
    scene.sandbox.switch(extend_needs_restart="always")
    yield text(scene.project.run("apply", "--auto-approve", code=None)) + scene.examined()
    yield {}


def the_token_is_refused(scene: Scene) -> Steps:
    scene.project.write(volume(scene.app))
    scene.sandbox.fault(
        "POST", f"/v1/apps/{scene.app}/*", "status", status=401, body={"error": "unauthorized"}
    )
    yield text(scene.project.run("apply", "--auto-approve", code=None))
    scene.sandbox.clear_faults()
    yield {}


def a_service_limits_calls(scene: Scene) -> Steps:
    scene.project.write(volume(scene.app))
    path = f"/v1/apps/{scene.app}/*"
    scene.sandbox.fault("POST", path, "rate_limited", retry_after=3600, times=None)
    yield text(scene.project.run("apply", "--auto-approve", code=None))
    scene.sandbox.clear_faults()
    yield {}


def a_saved_plan_is_not_what_is_planned_now(scene: Scene) -> Steps:
    project = scene.project
    project.write(volume(scene.app))
    project.run("plan", "--out", "the.plan")
    project.write(volume(scene.app, spec="region: ams, size_gb: 20"))
    moved = project.run("apply", "--plan", "the.plan", code=1)
    project.write(volume(scene.app) + volume(scene.app, "logs"))
    yield text(moved) + text(project.run("apply", "--plan", "the.plan"))
    yield {"FILE": "another.plan"}


def a_saved_plan_needs_approvals(scene: Scene) -> Steps:
    project = scene.applied("lifecycle: {deletion: delete}\n", volume(scene.app, "logs"))
    project.write(volume(scene.app, "logs") + cluster(f"db-{scene.app}"))
    yield text(project.run("plan", "--out", "the plan"))
    yield {}


def an_import_meets_a_call_without_an_outcome(scene: Scene) -> Steps:
    scene.project.write(volume(scene.app))
    scene.sandbox.fault("POST", f"/v1/apps/{scene.app}/volumes", "delay", delay_s=30)
    with scene.project.started_apply() as running:
        running.until(lambda: bool(scene.sandbox.volumes(scene.app)))
        running.kill()
    yield text(scene.project.run("import", "--app", scene.app, code=None))
    yield {}


def a_secret_stands_in_a_manifest(scene: Scene) -> Steps:
    scene.project.write(read_page("secret-literal").block("yaml"))
    yield text(scene.project.run("validate", code=None))
    yield {"RECIPIENT": ANA.recipient}


def an_id_is_not_recorded(scene: Scene) -> Steps:
    scene.applied()
    project = scene.project
    said = [
        project.run("state", "forget", "Volume/other/x", code=1),
        project.run("state", "forget", "--unclaimed", "x", code=1),
        project.run("resolve", "Volume/other/x", "--not-created", code=1),
        project.run("history", "show", "nonesuch", code=1),
        project.run("drift", "--accept", "Volume/other/x", code=1),
        project.run("drift", "--only-new"),
        project.run("plan", "--target", "Volume/other/x", code=64),
    ]
    yield "".join(map(text, said))
    yield {}


def signing(project: Project, settings: str = "") -> dict[str, str]:
    """Makes `project` a repository whose git signs for somebody; what the words of an approval stand for."""
    root = project.root
    ana = make(root.parent, "ana@example.com")
    git(root, "init", "-q", "-b", "main")
    project.write(".reconcile/\n*.plan*\n", ".gitignore")
    project.write(f"manifests: [manifests]\n{settings}", "reconcile.yaml")
    project.write(ana.line(), "allowed_signers")
    commit(root)
    git(root, "config", "gpg.format", "ssh")
    git(root, "config", "user.signingkey", str(ana.key))
    project.env |= ISOLATED
    return {"FILE": "the.plan", "TEXT": "why", "FILE.NAME.approval": f"the.plan.{ana.name}.approval"}


def a_delete_needs_people(scene: Scene) -> Steps:
    project, root = scene.project, scene.project.root
    project.write(volume(scene.app) + "lifecycle: {deletion: delete}\n" + volume(scene.app, "other"))
    words = signing(project, "approvals: {rules: [{when: {action: delete}}]}\nenvironments: {prod: {}}\n")
    project.run("state", "init", "--env", "prod")
    project.run("apply", "--auto-approve", "--env", "prod")
    project.write(volume(scene.app, "other"))
    commit(root)
    told = text(project.run("apply", "--auto-approve", "--env", "prod", code=1))
    assert "--approve-delete" not in told
    yield told
    yield words


def a_budget_cannot_count(scene: Scene) -> Steps:
    words = signing(scene.applied())
    scene.project.write(written("Budget", {"window": "24h", "most": {"creates": 9}}), "guardrails/some.yaml")
    scene.project.write(volume(scene.app) + volume(scene.app, "more"))
    yield text(scene.project.run("apply", "--auto-approve", code=1))
    yield words


def an_object_and_its_copy_would_go(scene: Scene) -> Steps:
    project, deletable = scene.project, "lifecycle: {deletion: delete}\n"
    scene.applied(deletable, volume(scene.app, "copy", spec="from: {volume: data}"), deletable)
    words = signing(project)
    project.write(written("Budget", {"window": "1m", "most": {"creates": 9}}), "guardrails/some.yaml")
    project.write("")
    approved = (
        word for name in ("data", "copy") for word in ("--approve-delete", f"Volume/{scene.app}/{name}")
    )
    yield text(project.run("apply", "--auto-approve", *approved, code=1))
    yield words


def a_change_waits_for_a_window(scene: Scene) -> Steps:
    project = scene.applied()
    words = signing(project)
    project.write(closed_now(), "guardrails/some.yaml")
    project.write(volume(scene.app, spec="region: ams, size_gb: 20"))
    yield text(project.run("apply", "--auto-approve", "--now", scene.data, code=1))
    yield words


STEPS = {
    a_delete_needs_people,
    a_budget_cannot_count,
    an_object_and_its_copy_would_go,
    a_change_waits_for_a_window,
}
SITUATIONS: dict[Situation, Sequence[str]] = {  # with the codes that their texts must have
    the_state_is_missing: ("state-missing",),
    the_state_is_missing_and_a_mark_tells: (),
    the_state_is_an_older_copy: (),
    the_state_is_damaged: (),
    a_record_was_altered: (),
    rows_were_lost: ("state-incomplete",),
    a_scope_is_locked: (),
    the_platform_is_another_one: ("other-platform",),
    a_create_needs_a_name: ("create-not-approved",),
    the_answer_to_a_create_was_lost: ("unknown-outcome",),
    two_objects_may_be_what_a_create_made: ("unknown-outcome",),
    a_restart_is_owed: (),
    the_token_is_refused: ("token-refused",),
    a_service_limits_calls: ("rate-limited",),
    a_saved_plan_is_not_what_is_planned_now: ("plan-moved", "not-in-plan"),
    a_saved_plan_needs_approvals: (),
    an_import_meets_a_call_without_an_outcome: ("unknown-outcome",),
    a_secret_stands_in_a_manifest: ("secret-literal",),
    an_id_is_not_recorded: (),
    a_delete_needs_people: ("approval-needed",),
    a_budget_cannot_count: ("budget-unknown",),
    an_object_and_its_copy_would_go: ("unprotected-delete",),
    a_change_waits_for_a_window: ("window-closed",),
}
TYPED_BY_OTHER_TESTS = {
    "drill-failed": "it takes a drill that failed: tests/cli/test_drills.py",
    "drill-overdue": "it advises the drill of `drill-failed`",
    "not-recoverable": "it advises a drill, or to sign: tests/drills/test_gate.py",
    "older-objects": "it takes a state that is younger than its platform: tests/cli/test_state_missing.py",
    "rekey-unfinished": "it takes a killed `state rekey` of a shared state: tests/state/encryption",
    "source-rewritten": "it takes a controller and a remote: tests/cli/test_controller.py",
    "state-encrypted": "it takes a shared state: tests/cli/test_encryption.py rekeys it",
    "state-identity": "it takes a shared state: tests/cli/test_encryption.py rekeys it",
    "state-not-encrypted": "it takes a shared state: tests/cli/test_encryption.py rekeys it",
    "unclaimed-object": "it stands in a case file: test_followed.py",
    "wait-unanswered": "it takes an outage of minutes; it advises the `apply` of `rate-limited`",
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.__name__)
def test_what_a_message_advises_is_not_refused(
    situation: Situation, sandbox: Sandbox, tmp_path: Path
) -> None:
    tried, left = 0, 1
    while left:
        number = next(_numbers)
        project = project_at(tmp_path / str(number) / "project", sandbox.url)
        brought_about = situation(Scene(project, sandbox, sandbox.app(f"advice{number}")))
        said = next(brought_about)
        assert isinstance(said, str)
        assert all(f"[{code}]" in said for code in SITUATIONS[situation]), said
        advised = list(dict.fromkeys(re.findall(r"\breconcile ([a-z].*?)(?:`|\n|   )", said)))
        assert advised, said
        known = next(brought_about)
        assert isinstance(known, Mapping)
        steps = advised if situation in STEPS else advised[tried : tried + 1]
        for line in steps:
            words = [known.get(word, word) for word in shlex.split(line)]
            words += [yes for verb, yes in YES.items() if verb in words[:2]]
            ran = project.run(*words, code=None, stdin="a value")
            assert ran.code in OK, f"{said}\n$ reconcile {shlex.join(words)}\n{ran.out}{ran.err}"
        brought_about.close()
        sandbox.clear_faults()
        tried += len(steps)
        left = len(advised) - tried


def test_every_code_with_advice_is_brought_about(tmp_path: Path) -> None:
    """Those of case files are found in test_followed.py, those of a page's own manifests here."""
    advising = set()
    for code in known_codes():
        folder = tmp_path / code
        folder.mkdir()
        if situation_file(code) is None:
            told = diagnostics_of(read_page(code), folder)
            advising |= {each.code for each in told if each.advice}
    brought_about = {code for codes in SITUATIONS.values() for code in codes}
    assert advising - brought_about == TYPED_BY_OTHER_TESTS.keys()

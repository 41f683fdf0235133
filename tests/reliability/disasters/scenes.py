"""The disasters. Each function plays one on a stage, and asserts what must be said and what must not happen.

They are the findings of people who tried to lose data with real clients, not with this project's harnesses.
"""

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.age_keys import generate
from tests.cli.harness import Project, Ran, Sandbox, cluster, environment, secret, serving, volume
from tests.reliability.disasters.places import Place, Places, variables

Scene = Callable[["Stage"], None]
SCENES: dict[str, Scene] = {}


def scene(play: Scene) -> Scene:
    SCENES[play.__name__] = play
    return play


@dataclass
class Stage:
    """One platform, one app, and machines of a team."""

    sandbox: Sandbox
    places: Places
    folder: Path
    app: str
    _machines: list[Project] = field(default_factory=list)

    def machine(self, place: Place, *manifests: str, home: str = "home") -> Project:
        """A checkout of its own, with these manifests, whose state is at `place`."""
        root = self.folder / f"machine-{len(self._machines)}"
        env = environment(self.sandbox.url, **variables(self.folder / home))
        project = Project(root, env)
        place.use(project)
        project.write("manifests: [manifests]\nexecution: {lease_s: 15, deadline_s: 6}\n", "reconcile.yaml")
        project.write("".join(manifests) or volume(self.app))
        self._machines.append(project)
        return project

    def name(self, word: str) -> str:
        """The name of a cluster, which is of this stage alone."""
        return f"{word}-{self.app}"

    def made(self, word: str) -> int:
        return len(self.sandbox.clusters(self.name(word)))

    def cluster(self, word: str, rest: str = "", **metadata: str) -> str:
        more = "".join(f", {key}: {value}" for key, value in metadata.items())
        text = cluster(self.name(word), rest=rest)
        return text.replace(f"name: {self.name(word)}}}", f"name: {self.name(word)}{more}}}", 1)

    def address(self, word: str) -> str:
        return f"PostgresCluster/{self.name(word)}"


def approved(project: Project, *addresses: str) -> list[str]:
    """The options that approve the creates of `addresses` in this project's state."""
    lineage = project.json("state", "list").json["context"]["lineage"]
    return [word for each in addresses for word in ("--approve-create", f"{each}@{lineage[:8]}")]


def begun(stage: Stage, place: Place, *words: str, more: str = "") -> Project:
    """A project that has applied clusters and `more`."""
    project = stage.machine(place, *map(stage.cluster, words), more)
    project.run("state", "init")
    project.apply(*approved(project, *map(stage.address, words)))
    assert [stage.made(word) for word in words] == [1] * len(words)
    return project


def refused(ran: Ran, *parts: str) -> None:
    """Nothing ended as if all was well, and what must be said is said."""
    assert ran.code not in (0, 2), f"exit {ran.code}\n{ran.out}\n{ran.err}"
    for part in parts:
        assert part in ran.out + ran.err, f"`{part}` is not in\n{ran.out}\n{ran.err}"


# --- A state is lost, or is another one -----------------------------------------------------------------


@scene
def a_lost_state_and_a_new_machine_make_no_second_cluster(stage: Stage) -> None:
    begun(stage, stage.places.new(), "one", "two")
    lost = stage.machine(stage.places.new(), stage.cluster("one"), stage.cluster("two"), home="another home")
    assert "--new changes nothing any more" in lost.run("state", "init", "--new").err
    planned = lost.json("plan")
    assert lost.json("state", "list").json["context"]["lineage"][:8] in planned.out
    refused(lost.apply(code=None), stage.address("one"), stage.address("two"))
    assert (stage.made("one"), stage.made("two")) == (1, 1)


@scene
def a_cluster_that_is_adopted_by_id_says_nothing_about_the_others(stage: Stage) -> None:
    begun(stage, stage.places.new(), "one", "two", "three")
    (first,) = stage.sandbox.clusters(stage.name("one"))
    lost = stage.machine(
        stage.places.new(),
        stage.cluster("one", id=first["id"]),
        stage.cluster("two"),
        stage.cluster("three"),
        home="another home",
    )
    lost.run("state", "init")
    lost.apply("--target", stage.address("one"))
    refused(lost.apply(code=None), stage.address("two"), stage.address("three"))
    assert [stage.made(word) for word in ("one", "two", "three")] == [1, 1, 1]


@scene
def a_new_cluster_that_is_approved_says_nothing_about_the_others(stage: Stage) -> None:
    begun(stage, stage.places.new(), "one", "two")
    place = stage.places.new()
    lost = stage.machine(place, *map(stage.cluster, ("one", "two", "new")), home="another home")
    lost.run("state", "init")
    words = approved(lost, stage.address("new"))
    lost.apply(*words, "--target", stage.address("new"))
    refused(lost.apply(code=None), stage.address("one"), stage.address("two"))
    lost.run("state", "forget", stage.address("new"))  # it was recorded once, and is not known any more
    refused(lost.apply(code=None), *map(stage.address, ("one", "two", "new")))
    assert [stage.made(word) for word in ("one", "two", "new")] == [1, 1, 1]


@scene
def the_state_of_another_project_makes_no_second_cluster(stage: Stage) -> None:
    begun(stage, stage.places.new(), "one")
    foreign = stage.places.new()
    other = begun(stage, foreign, "elsewhere")
    words = approved(other, stage.address("one"))
    mistaken = stage.machine(foreign.copy(), stage.cluster("one"), volume(stage.app), home="another home")
    refused(mistaken.apply(code=None), stage.address("one"))
    assert stage.made("one") == 1
    # What a workflow file still approves for another state approves nothing here.
    lost = stage.machine(stage.places.new(), stage.cluster("one"), home="third home")
    lost.run("state", "init")
    refused(lost.apply(*words, code=None), stage.address("one"))
    assert stage.made("one") == 1


@scene
def a_copy_of_the_state_on_one_machine_is_told_before_it_makes_anything(stage: Stage) -> None:
    place = stage.places.new()
    first = begun(stage, place, "one")
    second = stage.machine(place.copy(), stage.cluster("one"), stage.cluster("two"))
    first.write(stage.cluster("one") + stage.cluster("two"))
    words = approved(first, stage.address("two"))
    first.apply(*words)
    refused(second.apply(*words, code=None))
    refused(second.json("plan", code=None))
    refused(second.json("drift", code=None))
    assert stage.made("two") == 1


@scene
def a_state_put_back_to_an_older_copy_is_told_where_the_newer_one_was_seen(stage: Stage) -> None:
    place = stage.places.new()
    project = begun(stage, place, "one", more=volume(stage.app, "data"))
    older = place.copy()
    project.write(stage.cluster("one") + stage.cluster("two") + volume(stage.app, "data"))
    project.apply(*approved(project, stage.address("two")))
    words = approved(project, stage.address("two"))
    place.put_back(older)
    for verb in (["plan"], ["drift"], ["doctor"], ["doctor", "--probe-state"]):
        refused(project.json(*verb, code=None))
    refused(project.apply(*words, code=None))
    assert stage.made("two") == 1


@scene
def what_a_lost_state_knew_is_named(stage: Stage) -> None:
    with serving("--clock", "real") as sandbox:  # one that runs ahead makes nothing that is old
        sandbox.app(stage.app)
        _a_lost_state(replace(stage, sandbox=sandbox))


def _a_lost_state(stage: Stage) -> None:
    project = stage.machine(stage.places.new(), volume(stage.app), volume(stage.app, "kept"))
    project.run("state", "init")
    project.apply()
    (kept,) = (each["id"] for each in stage.sandbox.volumes(stage.app) if each["name"] == "kept")
    lost = stage.machine(stage.places.new(), volume(stage.app), home="another home")
    lost.run("state", "init")
    lost.apply()
    ran = lost.run("doctor", code=None)
    assert kept in ran.out, ran
    assert "older than this state" in (told := lost.run("plan")).out + told.err
    lost.run("state", "forget", "--unclaimed", "all")
    assert "older than this state" not in (told := lost.run("plan")).out + told.err


# --- What nobody declares, and how it is ----------------------------------------------------------------


@scene
def what_has_no_manifest_is_watched(stage: Stage) -> None:
    names = ("destroyed", "grown", "kept", "other")
    project = begun(stage, stage.places.new(), "one", more="".join(volume(stage.app, name) for name in names))
    project.write(volume(stage.app, "other"))
    project.apply()
    assert "No drift in 5 recorded objects (4 have no manifest)" in project.run("drift").out
    ids = {each["name"]: each["id"] for each in stage.sandbox.volumes(stage.app)}
    stage.sandbox.edit_volume(ids["grown"], size_gb=50)
    ran = project.json("drift", code=2)
    assert ran.actions().keys() == {f"Volume/{stage.app}/grown"}
    stage.sandbox.call("DELETE", f"/v1/apps/{stage.app}/volumes/{ids['destroyed']}")
    (found,) = stage.sandbox.clusters(stage.name("one"))
    stage.sandbox.edit_cluster(found["id"], status="deleted")
    ran = project.json("drift", code=2)
    codes = {each["code"] for each in ran.json["diagnostics"]}
    assert "object-destroyed" in codes
    for gone in (f"Volume/{stage.app}/destroyed", stage.address("one")):
        assert gone in ran.out
    planned = project.run("plan", "--show-all", code=None)
    for gone in (f"Volume/{stage.app}/destroyed", stage.address("one")):
        assert not [line for line in planned.out.splitlines() if gone in line and "kept" in line]
        project.run("state", "forget", gone)
    project.run("drift", "--accept", f"Volume/{stage.app}/grown", code=None)
    project.run("drift")


@scene
def a_failed_cluster_is_drift(stage: Stage) -> None:
    project = begun(stage, stage.places.new(), "one")
    (found,) = stage.sandbox.clusters(stage.name("one"))
    stage.sandbox.edit_cluster(found["id"], status="failed")
    project.json("drift", code=2)


@scene
def a_call_without_an_answer_is_told_by_drift(stage: Stage) -> None:
    project = begun(stage, stage.places.new(), "one")
    project.write(stage.cluster("one") + stage.cluster("late"))
    stage.sandbox.fault("POST", "/v1/postgres", "drop_after")
    project.apply(*approved(project, stage.address("late")), code=3)
    project.json("drift", code=3)
    project.write(stage.cluster("one"))
    project.json("drift", code=3)
    project.json("plan", code=3)
    assert stage.made("late") == 1


# --- Restarts -------------------------------------------------------------------------------------------


def _restarted(stage: Stage, machine: str) -> int:
    with_id = [
        each
        for each in stage.sandbox.call("GET", "/_sandbox/log?since=0")
        if each["method"] == "POST" and each["path"].endswith(f"/machines/{machine}/restart")
    ]
    return len(with_id)


def _grow(stage: Stage, names: tuple[str, ...], size: int) -> str:
    return "".join(
        volume(stage.app, name, f"region: ams, size_gb: {size}", "lifecycle: {restart: auto}\n")
        for name in names
    )


@scene
def a_volume_that_moves_before_its_extend_owes_the_restart_of_its_new_machine(stage: Stage) -> None:
    stage.sandbox.switch(extend_needs_restart="attached")
    project = stage.machine(stage.places.new(), _grow(stage, ("a", "b"), 10))
    project.env["RECONCILE_CAPABILITIES"] = "machine.get,machine.restart"
    project.run("state", "init")
    project.apply()
    ids = {each["name"]: each["id"] for each in stage.sandbox.volumes(stage.app)}
    one, two = stage.sandbox.machine(stage.app, *ids.values()), stage.sandbox.machine(stage.app)
    project.write(_grow(stage, ("a", "b"), 20))
    path = f"/v1/apps/{stage.app}/volumes/{ids['a']}/extend"
    stage.sandbox.fault("PUT", path, "delay", delay_s=1.5, before=True)
    with project.started_apply() as running:
        running.until(lambda: stage.sandbox.seen("PUT", ids["b"]) or stage.sandbox.fault_taken())
        stage.sandbox.edit_volume(ids["a"], attached_machine_id=two)
        ended = running.ended()
    assert ended.code == 0, ended
    for _ in range(2):
        project.apply(code=None)
    restarts = [_restarted(stage, machine) for machine in (one, two)]
    assert restarts == [1, 1], restarts
    assert project.json("plan").json["owed"] == []


# --- Names ----------------------------------------------------------------------------------------------


@scene
def an_approved_delete_answers_whether_it_is_the_same_object(stage: Stage) -> None:
    deletable = "lifecycle: {deletion: delete}\n"
    project = stage.machine(stage.places.new(), volume(stage.app, "old", rest=deletable))
    project.run("state", "init")
    project.apply()
    project.write(volume(stage.app, "fresh") + volume(stage.app, "other", "region: ams, size_gb: 5"))
    done = project.apply("--approve-delete", f"Volume/{stage.app}/old")
    assert set(done.outcomes().values()) == {"done"}
    project.run("plan", "--detailed-exitcode")


# --- Two at once, and signals ---------------------------------------------------------------------------


@scene
def of_two_first_applies_one_waits_its_turn_or_says_who_is_at_work(stage: Stage) -> None:
    for number in range(4):
        place = stage.places.new()
        text = volume(stage.app, f"data{number}")
        first = stage.machine(place, text)
        first.run("state", "init")
        second = first if not place.is_shared else stage.machine(place, text)
        with first.started_apply() as one, second.started_apply() as two:
            for ended in (one.ended(), two.ended()):
                assert ended.code in (0, 5), ended
    names = [each["name"] for each in stage.sandbox.volumes(stage.app)]
    assert sorted(names) == [f"data{number}" for number in range(4)]


@scene
def a_signal_while_manifests_are_read_ends_the_run_as_a_signal(stage: Stage) -> None:
    many = "".join(volume(stage.app, f"data{number}") for number in range(4000))
    project = stage.machine(stage.places.new(), many)
    project.run("state", "init")
    for number in range(12):
        with project.started("apply", "--auto-approve") as running:
            time.sleep(0.25 + number * 0.05)
            running.signal(signal.SIGINT)
            ended = running.ended()
        assert ended.code == 130, ended
        assert "Exception ignored" not in ended.err, ended.err
    assert stage.sandbox.volumes(stage.app) == []


# --- Encryption -----------------------------------------------------------------------------------------


def _recipient(project: Project, name: str) -> tuple[str, Path]:
    file = project.root.parent / f"{project.root.name}-{name}.key"
    identity, public = generate()
    file.write_text(f"{identity}\n")
    return public, file


@scene
def a_state_is_not_encrypted_to_people_who_cannot_prove_to_read_it(stage: Stage) -> None:
    place = stage.places.new()
    if not place.is_shared:
        return
    project = stage.machine(place, volume(stage.app))
    mine, identity = _recipient(project, "mine")
    stale, _ = _recipient(project, "stale")

    def encrypt_to(*recipients: str) -> None:
        to, names = json.dumps(recipients), json.dumps({"file": str(identity)})
        settings = f"manifests: [manifests]\nstate: {{url: '{project.env['RECONCILE_STATE']}', "
        settings += f"encrypt_to: {to}, identity_from: {names}}}\n"
        project.write(settings, "reconcile.yaml")

    encrypt_to(mine)
    project.run("state", "init")
    project.apply()
    before = _records(project)
    encrypt_to(stale)
    ran = project.run("state", "rekey", code=None)
    assert ran.code != 0, ran
    encrypt_to(mine)
    assert _records(project) == before


def _records(project: Project) -> Any:
    return project.json("state", "list").json["records"]


# --- Secrets --------------------------------------------------------------------------------------------


@scene
def one_missing_secret_does_not_hold_back_an_urgent_extend(stage: Stage) -> None:
    project = stage.machine(stage.places.new(), volume(stage.app))
    project.run("state", "init")
    project.apply()
    missing = secret(stage.app, "KEY", "env: NOBODY_SET_IT")
    project.write(volume(stage.app, spec="region: ams, size_gb: 30") + missing)
    refused(project.apply(code=1), "secret-source")
    assert stage.sandbox.volume(stage.app)["size_gb"] == 30


OF_A_PLACE = (
    "a_copy_of_the_state_on_one_machine_is_told_before_it_makes_anything",
    "a_state_put_back_to_an_older_copy_is_told_where_the_newer_one_was_seen",
    "a_state_is_not_encrypted_to_people_who_cannot_prove_to_read_it",
)

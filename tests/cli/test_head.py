"""The state's head: a digest that every apply prints, and that shows later what the journal was then."""

import re

from tests.cli.harness import Project, volume

HEAD = re.compile(r"^State head: ([0-9a-f]{64})$", re.MULTILINE)


def test_every_apply_prints_the_head_and_state_list_says_it_again(project: Project, app: str) -> None:
    project.write(volume(app))
    report = project.root / "report.md"
    made = project.run("apply", "--auto-approve", "--report", f"markdown={report}")
    (head,) = HEAD.findall(made.out)
    assert made.out.splitlines()[-1] == "Applied: 1 done."
    assert f"State head: <code>{head}</code>" in report.read_text()
    assert project.json("state", "list").json["head"] == head
    assert HEAD.findall(project.run("state", "list").err) == [head]
    learned = project.apply().json["head"]  # what the answer to the create left out
    again = project.run("apply", "--auto-approve")
    assert HEAD.findall(again.out) == [learned]  # nothing was written
    assert project.apply().json["head"] == learned


def test_each_commit_moves_the_head(project: Project, app: str) -> None:
    project.write(volume(app))
    heads = [project.apply().json["head"]]
    project.write(volume(app, spec="region: ams, size_gb: 12"))
    project.run("plan", "--out", "saved.plan")
    heads.append(project.json("apply", "--plan", "saved.plan").json["head"])
    project.run("state", "forget", f"Volume/{app}/data")
    heads.append(project.json("state", "list").json["head"])
    assert len(set(heads)) == 3
    assert HEAD.findall(project.run("state", "list").err) == heads[-1:]  # also where nothing is recorded


def test_a_refused_apply_has_none(applied: Project, app: str) -> None:
    applied.write(volume(app, spec="region: ams, size_gb: 5"))
    assert not HEAD.search(applied.run("apply", "--auto-approve", code=1).out)
    assert "head" not in applied.apply(code=1).json

"""`resolve --confirm-inferred` where there is nothing to confirm."""

from tests.cli.harness import Project, volume


def test_nothing_to_confirm_is_told(project: Project, app: str) -> None:
    project.write(volume(app))
    project.apply()
    ran = project.run("resolve", "--confirm-inferred")
    assert (ran.out, ran.err) == ("", "no recorded id is inferred: there is nothing to confirm\n")
    assert project.json("resolve", "--confirm-inferred").json["resolved"] == []
    project.run("resolve", "--confirm-inferred", f"Volume/{app}/data", code=1)

"""A volume that somebody deleted outside: its data comes back at the same address, in one apply."""

import re

from tests.cli.harness import Project, Sandbox, only, volume


def snapshot_of(sandbox: Sandbox, app: str, id: str) -> str:
    made = sandbox.call("POST", f"/v1/apps/{app}/volumes/{id}/snapshots")
    sandbox.advance(30)
    found: str = made["Msg"]["backup"]["graph_id"]
    return found


def advised(told: str) -> list[str]:
    """The lines for `spec` that the message gives."""
    return re.findall(r"`((?:from|region): [^`]*)`", told)


def test_a_deleted_volume_comes_back_with_what_its_message_says(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app, spec="size_gb: 12"))
    project.apply()
    lost = sandbox.volume(app)["id"]
    snapshot_of(sandbox, app, lost)
    newest = snapshot_of(sandbox, app, lost)
    sandbox.call("DELETE", f"/v1/apps/{app}/volumes/{lost}")

    told = project.run("plan", code=1).err
    assert "error[object-destroyed]" in told
    lines = advised(told)
    assert lines[0] == f"from: {{snapshot_id: {newest}}}"
    project.write(volume(app, spec=", ".join(["size_gb: 12", *lines])))
    assert project.json("plan").actions() == {f"Volume/{app}/data": "restore"}
    applied = project.apply()
    assert applied.outcomes() == {f"Volume/{app}/data#create": "done"}
    again = only([each for each in sandbox.volumes(app) if each["id"] != lost])
    assert (again["name"], again["state"], again["size_gb"]) == ("data", "created", 12)
    assert project.json("state", "list").json["records"][0]["id"] == again["id"]

    quiet = project.run("plan", "--detailed-exitcode")
    assert "No changes" in quiet.out
    project.write(volume(app, spec="size_gb: 12"))  # `from` counts only where a volume is made
    assert "No changes" in project.run("plan", "--detailed-exitcode").out

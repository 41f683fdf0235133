"""The service files of docs/how-to/controller.md: linted, and run as written in an empty environment."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.try_parts import dockerfile
from tests.cli.conftest import _serving, project, sandbox, sandbox_db  # noqa: F401 - fixtures
from tests.cli.harness import PATIENCE_S, TOKEN, Project, Sandbox, volume
from tests.docs import pages
from tests.docs.pages import ROOT

UNIT = "reconcile-controller.service"
MOST_EXPOSED = "25"  # of 100, by systemd's own judgement; without any hardening it is 92


def shown(file: str) -> str:
    """The text of this file, as the page has it."""
    (block,) = (item for item in pages.items(ROOT / "docs/how-to/controller.md") if item.file == file)
    return block.text


def unit(name: str) -> Sequence[str]:
    """The values of a setting of the unit."""
    return re.findall(rf"^{name}=(.*)$", shown(UNIT), re.MULTILINE)


def service() -> Any:
    return yaml.safe_load(shown("compose.yaml"))["services"]["controller"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unit", "container"])
def test_it_runs_as_written_and_ends_with_0(kind: str, project: Project, sandbox: Sandbox) -> None:  # noqa: F811
    app = sandbox.app(f"service-{kind}")
    project.write(volume(app))
    (project.root / "home").mkdir()
    if kind == "unit":
        (command,) = unit("ExecStart")
        words = shlex.split(command)
        (name, _, folder) = unit("Environment")[0].partition("=")
        assert folder == f"/var/lib/{unit('StateDirectory')[0]}"  # which systemd makes
        env = {name: str(project.root / "home")}
    else:
        of_image = {word: json.loads(rest) for word, rest in dockerfile() if word == "ENTRYPOINT"}
        words = [*of_image["ENTRYPOINT"], *service()["command"]]
        env = {"HOME": str(project.root / "home")}
    secrets = {"RECONCILE_TOKEN": TOKEN, "RECONCILE_BASE_URL": sandbox.url}
    with subprocess.Popen(
        words,
        cwd=project.root,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **env, **secrets},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        told = json.loads(next(iter(process.stderr)))
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
    assert (told["event"], told["scope"], told["status"]) == ("scope.changed", app, "changes")


def test_systemd_knows_each_line_of_the_unit_and_finds_it_guarded(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("systemd-analyze is not installed; the package is called systemd")
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / UNIT
    file.write_text(shown(UNIT))
    verified = subprocess.run([program, "verify", file], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = [program, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", str(file)]
    done = subprocess.run(judged, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_both_let_calls_under_way_end_and_give_no_rights() -> None:
    assert int(unit("TimeoutStopSec")[0]) > 15
    assert int(service()["stop_grace_period"].removesuffix("s")) > 15
    assert unit("KillMode") == ["mixed"]  # git, which it started, gets no signal before it
    assert unit("KillSignal") == []  # SIGTERM
    assert unit("User") not in ([], ["root"])
    assert (service()["read_only"], service()["cap_drop"]) == (True, ["ALL"])
    assert [volume for volume in service()["volumes"] if volume.endswith(":/work:ro")]

"""The README is a program: every command in it runs, and every line of output it shows comes out."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ENDED = "--- command ended ---"


def console_blocks() -> list[tuple[str, list[str]]]:
    """Each command of the tour with the lines it shows."""
    steps: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            else:
                steps[-1][1].append(line)
    return steps


def set_up_commands() -> list[str]:
    return [block.strip() for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)]


def normal(line: str) -> str:
    """Without what differs from run to run: ids and spaces around a line."""
    return re.sub(r"vol_[a-z0-9]+", "vol_ID", line).strip()


def test_ci_runs_the_commands_that_the_readme_gives_for_setting_up_and_testing() -> None:
    script = (ROOT / ".ci/run").read_text().splitlines()
    first, second = set_up_commands()
    assert first in script
    assert script[-1] == second


def test_every_command_of_the_tour_runs_and_shows_what_the_readme_says(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests")
    activate = tmp_path / ".venv/bin/activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')
    steps = console_blocks()
    assert len(steps) > 20
    script = "\n".join(f"{command}\necho '{ENDED}'" for command, _ in steps)
    # Job control gives `kill %1` its meaning; the background job's own output is awaited by its first line.
    script = script.replace(" &\n", " &\nsleep_until_listening\n")
    helper = "sleep_until_listening() { until curl -s http://127.0.0.1:8099/_sandbox/clock; do :; done; }\n"
    run = subprocess.run(
        ["bash", "-c", f"set -m\n{helper}{script}"],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    outputs = run.stdout.split(f"{ENDED}\n")
    assert len(outputs) == len(steps) + 1, run.stdout
    for (command, shown), output in zip(steps, outputs, strict=False):
        came = {normal(line) for line in output.splitlines()}
        missing = [line for line in shown if normal(line) not in came]
        assert not missing, f"$ {command}\nshould show\n{missing}\nbut printed\n{output}"

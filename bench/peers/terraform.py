"""Terraform over the same volumes: `terraform_data` blocks and local state, so without any network.

Each block takes its app from the first block of the app, as a volume refers to its app: nine in ten depend on
another one.

python -m bench.peers.terraform SIZE FOLDER    writes blocks, and a state in which all are applied
"""

import json
import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from bench.processes import Cost, run
from bench.stage import Program, Stage
from bench.worlds.world import app_name, volume_fields, volume_name

_CLI = Path(__file__).with_name("terraform_cli.py")
_STATE = "terraform.tfstate"
_PER_APP = 10

# No look at a home directory's settings, no question whether there is a newer version.
_ENV = {"TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}


@dataclass(frozen=True)
class TerraformPlan(Program):
    """A plan that finds nothing to do."""

    size: int
    ours: ClassVar = False

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        folder = stage.folder()
        stage.python("bench.peers.terraform", str(self.size), str(folder))
        return lambda: _terraform(folder, "plan", expect="No changes.")

    def __str__(self) -> str:
        return f"Terraform's of {self.size:,}"


@dataclass(frozen=True)
class TerraformApply(Program):
    """The first apply."""

    size: int
    ours: ClassVar = False

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        return lambda: _apply(stage.folder(), self.size)

    def __str__(self) -> str:
        return f"Terraform's of {self.size:,}"


def _apply(folder: Path, size: int) -> Cost:
    _write_blocks(folder, size)
    return _terraform(folder, "apply", "-auto-approve", expect=f"{size} added")


def _write_blocks(folder: Path, size: int) -> None:
    """One file an app, which nothing has applied yet."""
    for app in range(size // _PER_APP):
        blocks = "\n".join(_block(app, number) for number in range(_PER_APP))
        (folder / f"{app_name(app)}.tf").write_text(blocks)
    _terraform(folder, "init")


def _block(app: int, number: int) -> str:
    fields = {name: json.dumps(value) for name, value in _input(app, number).items()}
    if number:
        fields["app"] = f"{_address(app, 0)}.output.app"
    width = max(map(len, fields))
    lines = "".join(f"    {name:{width}} = {value}\n" for name, value in fields.items())
    return f'resource "terraform_data" "{_name(app, number)}" {{\n  input = {{\n{lines}  }}\n}}\n'


def _name(app: int, number: int) -> str:
    return f"{app_name(app)}-{volume_name(number)}"


def _address(app: int, number: int) -> str:
    return f"terraform_data.{_name(app, number)}"


def _input(app: int, number: int) -> dict[str, Any]:
    return {"name": volume_name(number), "app": app_name(app), **volume_fields(app, number)}


def _write_applied(folder: Path, size: int) -> None:
    """Blocks, and a state that knows them all: that of a small real apply, its entries written for each.

    A real apply writes the whole state after each resource, so ten thousand would take an hour.
    """
    seed = folder / "seed"
    seed.mkdir()
    _apply(seed, _PER_APP)
    state = json.loads((seed / _STATE).read_text())
    patterns = sorted(state["resources"], key=lambda resource: str(resource["name"]))
    state["resources"] = [
        _entry(patterns[number], app, number) for app in range(size // _PER_APP) for number in range(_PER_APP)
    ]
    _write_blocks(folder, size)
    (folder / _STATE).write_text(json.dumps(state, indent=2))


def _entry(pattern: dict[str, Any], app: int, number: int) -> dict[str, Any]:
    (instance,) = pattern["instances"]
    attributes = {**instance["attributes"], "id": str(uuid.UUID(int=app * 1000 + number))}
    for name in ("input", "output"):
        attributes[name] = {**attributes[name], "value": _input(app, number)}
    instance = {**instance, "attributes": attributes}
    if number:
        instance["dependencies"] = [_address(app, 0)]
    return {**pattern, "name": _name(app, number), "instances": [instance]}


def _terraform(folder: Path, *arguments: str, expect: str = "") -> Cost:
    # -P: without the script's folder, whose modules are not meant to be found by the library.
    command = [sys.executable, "-P", str(_CLI), *arguments, "-no-color"]
    cost = run(command, folder, _ENV, expect=expect)
    return replace(cost, wall_s=float(cost.output.splitlines()[-1]))


if __name__ == "__main__":
    _write_applied(Path(sys.argv[2]), int(sys.argv[1]))

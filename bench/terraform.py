"""Terraform over the same volumes: `terraform_data` blocks and local state, so without any network.

python -m bench.terraform SIZE FOLDER    writes blocks, and a state in which all are applied
"""

import json
import os
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import workload
from bench.processes import Cost, run

_CLI = Path(__file__).with_name("terraform_cli.py")
_STATE = "terraform.tfstate"

# No look at a home directory's settings, no question whether there is a newer version.
_ENV = {"TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}


def prepare(folder: Path, size: int) -> None:
    """Blocks that nothing has applied yet."""
    workload.write_blocks(folder, size)
    _terraform(folder, "init")


def prepare_applied(folder: Path, size: int) -> None:
    """Blocks, and a state that knows them all: that of a small real apply, its entries written for each.

    A real apply writes the whole state after each resource, so ten thousand would take an hour.
    """
    seed = folder.with_name(f"{folder.name}-seed")
    prepare(seed, workload.VOLUMES_PER_APP)
    apply(seed, workload.VOLUMES_PER_APP)
    state = json.loads((seed / _STATE).read_text())
    pattern = state["resources"][0]
    state["resources"] = [
        _entry(pattern, app, number)
        for app in workload.apps(size)
        for number in range(workload.VOLUMES_PER_APP)
    ]
    prepare(folder, size)
    (folder / _STATE).write_text(json.dumps(state, indent=2))


def _entry(pattern: dict[str, Any], app: int, number: int) -> dict[str, Any]:
    (instance,) = pattern["instances"]
    attributes = {**instance["attributes"], "id": str(uuid.UUID(int=app * 1000 + number))}
    for name in ("input", "output"):
        attributes[name] = {**attributes[name], "value": workload.block_input(app, number)}
    return {
        **pattern,
        "name": workload.block_name(app, number),
        "instances": [{**instance, "attributes": attributes}],
    }


def plan(folder: Path) -> Cost:
    """A plan that finds nothing to do."""
    return _terraform(folder, "plan", expect="No changes.")


def apply(folder: Path, size: int) -> Cost:
    return _terraform(folder, "apply", "-auto-approve", expect=f"{size} added")


def _terraform(folder: Path, *arguments: str, expect: str = "") -> Cost:
    # -P: without the script's folder, whose modules are not meant to be found by the library.
    command = [sys.executable, "-P", str(_CLI), *arguments, "-no-color"]
    cost = run(command, folder, _ENV, expect=expect)
    return replace(cost, wall_s=float(cost.output.splitlines()[-1]))


if __name__ == "__main__":
    prepare_applied(Path(sys.argv[2]), int(sys.argv[1]))

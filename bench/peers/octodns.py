"""octoDNS over as many records as there are volumes: a zone for each app, from a YAML file each.

Its target is `octodns_target.py`, in which all records are already as they are declared: no network at all.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bench.processes import Cost, run
from bench.stage import REPOSITORY, Program, Stage
from bench.worlds.world import app_name, volume_name

# With five fields each, as a volume has.
RECORDS: dict[str, dict[str, Any]] = {
    volume_name(number): {
        "ttl": 300 + number,
        "type": "CAA",
        "value": {"flags": 0, "tag": "issue", "value": f"ca{number}.example.net"},
    }
    for number in range(10)
}

_SETTINGS = """\
manager: {max_workers: 1}
providers:
  config: {class: octodns.provider.yaml.YamlProvider, directory: config, escaped_semicolons: false}
  static: {class: bench.peers.octodns_target.Static}
zones:
"""


@dataclass(frozen=True)
class OctoDns(Program):
    """`command`: "sync", which plans and finds nothing to do, or "validate"."""

    command: str
    size: int
    ours: ClassVar = False

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        folder = stage.once(("octoDNS", self.size), lambda: _written(stage.folder(), self.size))
        command = [sys.executable, "-m", f"octodns.cmds.{self.command}", "--config-file", "octodns.yaml"]
        env = {"PYTHONPATH": str(REPOSITORY)}
        if self.command == "sync":
            run([*command, "--log-stream-stdout"], folder, env, expect="No changes were planned")
        return lambda: run([*command, "--quiet"], folder, env)

    def __str__(self) -> str:
        return f"octoDNS' of {self.size:,}"


def _written(folder: Path, size: int) -> Path:
    (folder / "config").mkdir()
    zones = [f"{app_name(app)}.example." for app in range(size // len(RECORDS))]
    for zone in zones:
        (folder / "config" / f"{zone}yaml").write_text("---\n" + "".join(map(_record, RECORDS)))
    lines = [f"  {zone}: {{sources: [config], targets: [static]}}\n" for zone in zones]
    (folder / "octodns.yaml").write_text(_SETTINGS + "".join(lines))
    return folder


def _record(name: str) -> str:
    record = RECORDS[name]
    value = "".join(f"    {key}: {value}\n" for key, value in record["value"].items())
    return f"{name}:\n  ttl: {record['ttl']}\n  type: {record['type']}\n  value:\n{value}"

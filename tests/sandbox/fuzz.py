"""Fuzz the sandbox from its own description: `python -m tests.sandbox.fuzz [--cases N] [--seed N]`.

Runs schemathesis, configured by `schemathesis.toml`, against fresh sandboxes of both profiles, again and
again with other seeds until N cases have run (default 5000), and reads the world after each. Every other
run is pinned to the objects of `world.yaml`, so that its bodies meet something that exists. Prints one line
per run; the exit code is 1 when a case failed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import count, cycle
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.harness import serving

CONFIG = Path(__file__).with_name("schemathesis.toml")
WORLD = Path(__file__).with_name("world.yaml")
PROFILES = ("extended", "documented")
PINNED = """
[parameters]
"path.app_name" = "shop"
"path.volume_id" = "vol_data"
"path.machine_id" = "m1"
"path.secret_name" = "API_KEY"
"path.id" = "orders0000000000"
"path.postgres_cluster_id" = "orders0000000000"
"path.provider" = "store"
"query.client_id" = "store"
"query.redirect_uri" = "http://127.0.0.1:8200/sign-in/callback"
"query.response_type" = "code"
"query.scope" = "read"
"""
RUNS = [(profile, pinned) for pinned in (False, True) for profile in PROFILES]
_CASES = re.compile(r"(\d+) generated")


class Fuzzed(NamedTuple):
    """`reached`: the operations, by method and path of the description, that gave a 2xx at least once."""

    cases: int
    code: int
    report: str
    operations: frozenset[tuple[str, str]]
    reached: frozenset[tuple[str, str]]
    world: Mapping[str, Any]


def fuzz(
    profile: str, seed: int, examples: int, *options: str, pinned: bool = False, phases: str = ""
) -> Fuzzed:
    """One run, on a clock 6000 times faster than the real one, so that waits end and states change."""
    options = ("--clock", "x6000", "--profile", profile, "--seed", str(WORLD), *options)
    with serving(*options) as sandbox:
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file=config.toml", "run"]
        command += [f"{sandbox.url}/openapi.json", "--header", "Authorization: Bearer sandbox", "--no-color"]
        command += [f"--max-examples={examples}", f"--seed={seed}", "--continue-on-failure"]
        command += [f"--phases={phases}"] if phases else []
        with tempfile.TemporaryDirectory() as folder:  # it leaves caches where it runs
            config = CONFIG.read_text(encoding="utf-8") + (PINNED if pinned else "")
            Path(folder, "config.toml").write_text(config, encoding="utf-8")
            ran = subprocess.run(
                command, cwd=folder, env={**os.environ, "PYTHONWARNINGS": ""}, capture_output=True, text=True
            )
        report = ran.stdout + ran.stderr
        found = _CASES.search(report)
        paths = sandbox.call("GET", "/openapi.json")["paths"]
        operations = {
            (method.upper(), path)
            for path, item in paths.items()
            for method in item
            if path.startswith("/v1/")
        }
        log = sandbox.call("GET", "/_sandbox/log")
        done = {(entry["method"], entry["path"]) for entry in log if 200 <= entry["status"] < 300}
        reached = {one for one in operations if any(_is_of(sent, one) for sent in done)}
        world = sandbox.call("GET", "/_sandbox/world")
    cases = int(found[1]) if found else 0
    return Fuzzed(cases, ran.returncode, report, frozenset(operations), frozenset(reached), world)


def _is_of(sent: tuple[str, str], operation: tuple[str, str]) -> bool:
    parts, wanted = sent[1].split("/"), operation[1].split("/")
    return (
        sent[0] == operation[0]
        and len(parts) == len(wanted)
        and all(want.startswith("{") or want == part for part, want in zip(parts, wanted, strict=True))
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sandbox.fuzz")
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    cases = failed = 0
    operations: set[tuple[str, str]] = set()
    reached: set[tuple[str, str]] = set()
    for seed, (profile, pinned) in zip(count(wanted.seed), cycle(RUNS), strict=False):
        run = fuzz(profile, seed, 100, pinned=pinned)
        cases += run.cases
        things = ", ".join(f"{len(thing)} {name}" for name, thing in run.world.items())
        operations |= run.operations
        reached |= run.reached
        name = f"{profile}, pinned" if pinned else profile
        print(f"{name}, seed {seed}: {run.cases} cases; left {things}", flush=True)  # noqa: T201
        if run.code:
            failed += 1
            print(run.report, flush=True)  # noqa: T201
        if cases >= wanted.cases or not run.cases:
            break
    got = f"{len(reached)} of {len(operations)} operations were answered with success at least once"
    print(f"{cases} cases, {failed} runs with failures; {got}")  # noqa: T201
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())

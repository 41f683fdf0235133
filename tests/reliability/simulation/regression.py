"""From a failing seed to a small case in a file, which stays a test after the bug is gone."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.reliability.simulation.history import play
from tests.reliability.simulation.scenario import Scenario, from_plain, to_plain

CASES = Path(__file__).parent.parent / "regressions"
MOST_PLAYS = 400


def write_case(scenario: Scenario, invariant: str, folder: Path = CASES) -> Path:
    """Shrink `scenario` as long as it breaks `invariant`, and write what is left."""
    small = minimise(scenario, invariant)
    violation = play(small).violation
    assert violation is not None
    path = folder / f"{scenario.seed}-{invariant}.yaml"
    document = {"invariant": invariant, "message": violation.message, "scenario": to_plain(small)}
    folder.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(document, sort_keys=False, width=110), encoding="utf-8")
    return path


def read_case(path: Path) -> Scenario:
    return from_plain(yaml.safe_load(path.read_text(encoding="utf-8"))["scenario"])


def minimise(scenario: Scenario, invariant: str) -> Scenario:
    """The smallest scenario found that still breaks `invariant`, leaving out one thing after another."""
    small, plays = to_plain(scenario), 0
    found = True
    while found:
        found = False
        for candidate in _smaller(small):
            plays += 1
            if plays > MOST_PLAYS:
                return from_plain(small)
            if _breaks(candidate, invariant):
                small, found = candidate, True
                break
    return from_plain(small)


def _breaks(plain: Any, invariant: str) -> bool:
    try:
        violation = play(from_plain(plain)).violation
    except AssertionError:  # manifests that refer to one which was left out
        return False
    return violation is not None and violation.invariant == invariant


def _smaller(plain: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Copies of `plain` that each lack one thing, the largest things first."""
    rounds = plain["rounds"]
    for number in range(len(rounds)):
        if len(rounds) > 1:
            yield _without(plain, ("rounds",), number)
    for number, each in enumerate(rounds):
        for name in ("runs", "edits"):
            for index in range(len(each.get(name, ()))):
                yield _without(plain, ("rounds", number, name), index)
    names = sorted({document["metadata"]["name"] for each in rounds for document in each["manifests"]})
    for name in names:
        smaller = copy.deepcopy(plain)
        for each in smaller["rounds"]:
            each["manifests"] = [item for item in each["manifests"] if item["metadata"]["name"] != name]
        yield smaller
    for number, each in enumerate(rounds):
        for key in ("pause_s", "secret"):
            if key in each:
                yield _without(plain, ("rounds", number), key)
        for index, run in enumerate(each.get("runs", ())):
            for key, value in run.items():
                if isinstance(value, dict) and key.endswith("_faults"):
                    for nth in value:
                        yield _without(plain, ("rounds", number, "runs", index, key), nth)
                elif key != "verb":
                    yield _without(plain, ("rounds", number, "runs", index), key)
        for index, document in enumerate(each["manifests"]):
            if "lifecycle" in document:
                yield _without(plain, ("rounds", number, "manifests", index), "lifecycle")
            for key in ("count", "snapshot_retention"):
                if key in document["spec"]:
                    yield _without(plain, ("rounds", number, "manifests", index, "spec"), key)
    for key in plain["switches"]:
        yield _without(plain, ("switches",), key)
    for index in range(len(plain["capabilities"])):
        yield _without(plain, ("capabilities",), index)


def _without(plain: dict[str, Any], path: tuple[str | int, ...], key: Any) -> dict[str, Any]:
    smaller = copy.deepcopy(plain)
    holder: Any = smaller
    for part in path:
        holder = holder[part]
    del holder[key]
    return smaller

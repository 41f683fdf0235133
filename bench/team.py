"""Many runners on one shared state, each with an app of its own, against one runner alone.

The platform answers after 300 ms, and each runner has one call under way at a time. What a runner waits for
beside the platform is the state: where runners queue there, sixteen are not sixteen times as fast as one.
What is counted is what the platform logged from the last runner's first create to the first runner's last.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from urllib.request import Request, urlopen

from bench.places import Place
from bench.processes import CouldNotRun
from bench.stage import Stage
from bench.table import Row
from bench.worlds.world import app_name

RUNNERS = 16
_ANSWERS_AFTER_S = 0.3
_MOST = 1 / 8  # of the time of one runner, for each create


def sharing(stage: Stage, places: Sequence[Place], creates: int) -> list[Row]:
    """How long a create takes where sixteen runners make them at the same time, against one runner."""
    rows = []
    for place in places:
        alone_s, together_s = (_create_s(stage, place, runners, creates) for runners in (1, RUNNERS))
        figure = f"{place.name}: a create by {RUNNERS} runners, against one"
        rows.append(Row(figure, [together_s * 1000], "ms", _MOST, [alone_s * 1000]))
    return rows


def _create_s(stage: Stage, place: Place, runners: int, creates: int) -> float:
    """Seconds for each create while all runners work. Not their start: that is CPU, which they all share."""
    root, apps = stage.folder(), [app_name(app) for app in range(runners)]
    place.prepare(root.name)
    with stage.sandbox(root, runners) as platform:
        projects = {
            app: place.project(stage, _checked_out(root / app, apps, creates), platform, root.name)
            for app in apps
        }
        projects[apps[0]].run("state", "init")
        _slow_down(platform)
        done = f"Applied: {creates} done."

        def apply(app: str) -> None:
            projects[app].run("apply", "--auto-approve", f"manifests/{app}.yaml", expect=done)

        with ThreadPoolExecutor(runners) as threads:
            list(threads.map(apply, apps))
        made = _made(platform)
    if [len(times) for times in made] != [creates] * runners:
        raise CouldNotRun(f"{runners} runners made {sum(map(len, made))} volumes")
    began_s, ended_s = max(times[0] for times in made), min(times[-1] for times in made)
    meanwhile = sum(began_s < at_s <= ended_s for times in made for at_s in times)
    if not meanwhile:
        raise CouldNotRun(f"the first of {runners} runners was done before the last one began")
    return (ended_s - began_s) / meanwhile


def _made(platform: str) -> list[list[float]]:
    """By app, when each create was carried out."""
    with urlopen(f"{platform}/_sandbox/log") as answer:
        log = json.load(answer)
    made = defaultdict[str, list[float]](list)
    for each in log:
        if each["method"] == "POST" and each["effect"]:
            made[each["path"]].append(datetime.fromisoformat(each["at"]).timestamp())
    return list(made.values())


def _checked_out(root: Path, apps: Sequence[str], creates: int) -> Path:
    """What each runner gets: the manifests of all apps, a file each."""
    (root / "manifests").mkdir(parents=True)
    (root / "reconcile.yaml").write_text("manifests: [manifests]\nexecution: {concurrency: 1}\n")
    for app in apps:
        volumes = [
            f"apiVersion: reconciler/v1\nkind: Volume\nmetadata: {{name: data-{number}, app: {app}}}\n"
            "spec: {region: ams, size_gb: 10}\n"
            for number in range(creates)
        ]
        (root / "manifests" / f"{app}.yaml").write_text("---\n".join(volumes))
    return root


def _slow_down(platform: str) -> None:
    """From now on, each answer of the platform comes late."""
    late = {"method": "*", "path": "/v1/*", "action": "delay", "delay_s": _ANSWERS_AFTER_S, "times": None}
    body = json.dumps(late).encode()
    urlopen(Request(f"{platform}/_sandbox/faults", body, {"content-type": "application/json"})).close()

"""Ten famous accidents, played against the demo's platform: what was typed, and what did not happen.

Each is typed in a shell, in a demo of its own. It has held where the output says so, and where every volume
and cluster of before is still there, as large as it was, and none is there twice.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from msgspec import Struct

from reconciler.demo import shop
from reconciler.manifests.files import SETTINGS_FILE

_MOST_S = 120


class Accident(NamedTuple):
    """`happened`: to whom, and when. `source`: where that is told. `typed`: lines for a shell.

    `shows`: a pattern of what they print. `held`: what that means.
    """

    happened: str
    source: str
    typed: Sequence[str]
    shows: str
    held: str


ACCIDENTS = {
    "lost-state": Accident(
        "DataTalks.Club, 2026: a new laptop without the state made all twice; cleaning up deleted production",
        "https://vibegraveyard.ai/story/claude-code-terraform-datatalks-infrastructure-destruction",
        ("rm -r .reconcile ~/.local", "reconcile state init", "reconcile apply --auto-approve"),
        "create-not-approved",
        "The volume is found again. The cluster, which no list shows, is created only on a person's word.",
    ),
    "code-freeze": Accident(
        "SaaStr on Replit, 2025: an agent changed production during a code freeze; the database was gone",
        "https://vibegraveyard.ai/story/saastr-replit-agent-db-wipe",
        (
            "echo 'agents: {variables: [CLAUDECODE]}' >> reconcile.yaml && reconcile apply --auto-approve",
            "export CLAUDECODE=1; sed -i.old s/14/1/ manifests/data.yaml",
            "sed -i.old /agents/d reconcile.yaml; reconcile apply --auto-approve",
        ),
        "approval-needed.*agent: CLAUDECODE",
        "An agent's run sends only what people signed, also after it took that rule out of the settings.",
    ),
    "manifests-gone": Accident(
        "Crossplane on Azure, 2021: an upgrade removed custom resources, and with them the databases",
        "https://github.com/crossplane-contrib/provider-azure/issues/215",
        ("rm manifests/*", "reconcile apply --auto-approve"),
        "3 retained",
        "What leaves the manifests stays on the platform, and is watched.",
    ),
    "pruned": Accident(
        "A user of Argo CD, 2021: one bad change of the configuration pruned 90 % of an application",
        "https://github.com/argoproj/argo-cd/issues/7412",
        (
            'for i in 1 2 3 4 5; do sed "s/: data/: data$i/" manifests/data.yaml; '
            "printf 'lifecycle: {deletion: delete}\\n---\\n'; done > manifests/more.yaml",
            "reconcile apply --auto-approve && rm manifests/more.yaml",
            "reconcile apply --auto-approve",
        ),
        "delete-not-approved",
        "Each deletion needs its own approval, by address, also of objects that were declared as deletable.",
    ),
    "wrong-environment": Accident(
        "A user of Terraform, 2017: `destroy` ran in the workspace that another terminal had selected",
        "https://github.com/hashicorp/terraform/issues/15838",
        (
            "mkdir -p overlays/prod && sed -i.old 's/size_gb: 10/size_gb: 20/' manifests/data.yaml",
            "reconcile plan --env base --out shop.plan",
            "reconcile apply --env prod --plan shop.plan --auto-approve; reconcile apply --auto-approve",
        ),
        "(?s)made for environment `base`.*which environment is meant",
        "A plan runs only where it was made for, and nothing runs before an environment is named.",
    ),
    "answer-lost": Accident(
        "Crossplane on AWS, 2024: objects were created, their ids were lost, and they were created again",
        "https://github.com/crossplane-contrib/provider-upjet-aws/issues/1482",
        (
            "sed 's/: data/: logs/' manifests/data.yaml > manifests/logs.yaml",
            "reconcile demo play answer-lost",
            "reconcile apply --auto-approve",
        ),
        "(?s)outcome of a call is unknown.*Applied: 1 done",
        "The volume that the platform shows is adopted; it is not created again.",
    ),
    "renamed": Accident(
        "Coder, 2022: a workspace got another name, and so did its volume; the old one was deleted",
        "https://github.com/coder/coder/issues/3000",
        ("sed -i.old 's/: data/: files/' manifests/data.yaml", "reconcile apply --auto-approve"),
        "may be `Volume/shop/data`.*under a new name",
        "Nothing is ever replaced: the old volume stays, and the plan says how to declare the new name.",
    ),
    "backups-off": Accident(
        "A Terraform module, 2025: a field that nobody wrote was sent as 0, and daily backups were off",
        "https://github.com/tryretool/terraform-retool-modules/pull/85",
        (
            "sed -i.old 's/retention: 14/retention: 21/' manifests/data.yaml",
            "reconcile apply --auto-approve && reconcile show Volume/shop/data",
        ),
        "(?s)Applied: 1 done.*auto_backup_enabled: true",
        "A call holds the field that changes; all others stay as they are.",
    ),
    "stranger": Accident(
        "Atlantis warns of it: a stranger's pull request reads the credentials of the job that plans it",
        "https://www.runatlantis.io/docs/security",
        (
            "git init -q . && git add . && git -c user.name=a -c user.email=a@example.com commit -qm shop",
            "sed -i.old 's/value_from: .*/value_from: {env: RECONCILE_TOKEN}/' manifests/orders.yaml",
            "RECONCILE_TOKEN=sandbox reconcile plan --untrusted HEAD",
        ),
        "own-credential",
        "Our own credentials are nobody's secret value, and a stranger's files run no program.",
    ),
    "disk-full": Accident(
        "CloudNativePG, 2025: a full disk stopped the database, and the operator refused to grow the disk",
        "https://github.com/cloudnative-pg/cloudnative-pg/issues/9301",
        (
            "reconcile demo play volume-full",
            "sed -i.old 's/size_gb: 10/size_gb: 20/' manifests/data.yaml && reconcile apply --auto-approve",
        ),
        "Applied: 1 done",
        "Growing a volume needs the platform alone, whatever is on the disk.",
    ),
}


class Played(Struct, frozen=True):
    """How an accident went. `output`: of the typed lines; `problem`: why it has not held, "" if it has."""

    name: str
    accident: Accident
    output: str
    problem: str


def play_accidents(names: Sequence[str], variables: Mapping[str, str]) -> Iterator[Played]:
    """Play each accident in a folder of its own, which is removed afterwards."""
    for name in names:
        with tempfile.TemporaryDirectory(prefix="reconcile-demo-") as folder:
            yield _play(name, ACCIDENTS[name], Path(folder), variables)


def _play(name: str, accident: Accident, home: Path, variables: Mapping[str, str]) -> Played:
    folder = home / "shop"
    folder.mkdir()
    own = ("RECONCILE_", "GIT_", "XDG_", "CLAUDECODE")
    passed = {key: value for key, value in variables.items() if not key.startswith(own)}
    environment = passed | {"HOME": str(home), "NO_COLOR": "1", "PYTHON": sys.executable}
    try:
        started = _type("reconcile demo", folder, environment)
        if not (folder / SETTINGS_FILE).exists():
            return Played(name, accident, started, "the demo did not start")
        before = _things(folder)
        output = _type("\n".join(accident.typed), folder, environment)
        after = _things(folder)
    finally:
        shop.stop(folder)
    lost = [thing["name"] for thing in before if not any(_goes_on(thing, other) for other in after)]
    twice = [name for name, count in Counter(thing["name"] for thing in after).items() if count > 1]
    problem = f"lost: {lost}" if lost else f"made twice: {twice}" if twice else ""
    if not problem and not re.search(accident.shows, output):
        problem = f"the output does not show {accident.shows}"
    return Played(name, accident, output, problem)


def _goes_on(thing: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether `other` is `thing`, at least as large."""
    size = "size_gb" if "size_gb" in thing else "disk_size_gb"
    return bool(thing["id"] == other["id"] and thing[size] <= other[size])


def _things(folder: Path) -> list[Mapping[str, Any]]:
    """The volumes and clusters of the demo's platform that are not deleted."""

    async def read() -> Any:
        async with shop.platform(folder) as ask:
            return await ask("GET", "_sandbox/world", None)

    world = anyio.run(read)
    gone = ("pending_destroy", "destroyed")
    return [*(volume for volume in world["volumes"] if volume["state"] not in gone), *world["clusters"]]


def _type(lines: str, folder: Path, environment: Mapping[str, str]) -> str:
    """The output of `lines`, as typed into a shell in which `reconcile` is this program."""
    return subprocess.run(  # noqa: S603 - lines of ours, see ACCIDENTS
        ["sh", "-c", f'reconcile() {{ "$PYTHON" -m reconciler "$@"; }}\n{lines}'],  # noqa: S607
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_MOST_S,
        check=False,
    ).stdout

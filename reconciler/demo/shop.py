"""The demo project of a folder: its files, and the emulated platform that runs until it is stopped."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from reconciler import api
from reconciler.core.errors import ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.core.reporter import Reporter
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.project.embedded import SANDBOX_CLOCK, SANDBOX_SETTLE_S, control
from reconciler.project.sections import Settings
from reconciler.project.settings import PRIVATE, ProjectSettings
from reconciler.project.store import Opening, open_state
from reconciler.sandbox.lock import Running, running_at
from reconciler.services.transport import HttpTransport

APP = "shop"
FOLDER = ".demo"  # beside the state's folder, which accidents happen to
_DB, _LOG = f"{FOLDER}/platform.db", f"{FOLDER}/platform.log"
_HEADING = "# Written by `reconcile demo`"
_SETTINGS = f"""{_HEADING}: an emulated platform on this machine. Its clock runs 600 times faster.
platform:
  base_url: URL
  token_from: {{emulator: true}} # its token protects nothing
execution:
  settle_s: {SANDBOX_SETTLE_S:g} # how long to look for an object whose create was not answered
"""
_FILES = {
    ".gitignore": f"{PRIVATE}/\n{FOLDER}/\n",
    "manifests/data.yaml": """apiVersion: reconciler/v1
kind: Volume
metadata: {name: data, app: shop}
spec:
  region: ams
  size_gb: 10
  snapshot_retention: 14
""",
    "manifests/orders.yaml": """apiVersion: reconciler/v1
kind: PostgresCluster
metadata: {name: orders}
spec: {org_slug: personal, plan: starter, region: ams}
---
apiVersion: reconciler/v1
kind: Secret
metadata: {name: DB_HOST, app: shop}
spec:
  value_from: {template: "${PostgresCluster/orders:endpoints.primary.pooler.host}"}
""",
}
_URL = re.compile(r"^  base_url: (http://127\.0\.0\.1:(\d+))$", re.MULTILINE)


async def start(folder: Path, variables: Mapping[str, str], port: int, reporter: Reporter) -> str:
    """Write the demo project into `folder`, start its platform and apply it; returns the platform's address.

    A demo that was stopped goes on as it was, at its own port. `port`: 0 for a free one. Raises
    ReconcilerError where the folder holds another project, or a file that differs from the demo's.
    """
    require_extra("sandbox", "the emulated platform")
    written = _demo_settings(folder)
    if written is None:
        _refuse_other_files(folder)
        await _refuse_another_state(folder, variables)
    url = _start_platform(folder, port if written is None else int(written[2]))
    if written is None:
        for name, text in {**_FILES, SETTINGS_FILE: _SETTINGS.replace("URL", url)}.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    async with platform(folder) as ask:
        await ask("POST", "_sandbox/apps", {"name": APP})
    async with api.open_project(folder, variables=variables, reporter=reporter) as project:
        if await api.create_state(project):
            plan = await api.plan(project)
            assert plan.context is not None
            cluster = f"PostgresCluster/orders@{plan.context.word}"
            await api.apply(project, approve=lambda plan: True, approved_creates=[cluster])
    return url


def stop(folder: Path) -> bool:
    """End the demo's platform; False where none runs. Its world, the project and the state stay."""
    running = _running(folder)
    if running is None:
        return False
    os.kill(running.pid, signal.SIGTERM)
    while _running(folder) is not None:
        time.sleep(0.02)
    return True


Ask = Callable[[str, str, Any], Awaitable[Any]]  # method, path and body of a request to the platform


@asynccontextmanager
async def platform(folder: Path) -> AsyncIterator[Ask]:
    """Asks the demo's platform of `folder`. Raises ReconcilerError where none runs."""
    running = _running(folder)
    if running is None:
        raise ReconcilerError("no demo runs in this folder", help="start it with `reconcile demo`")
    async with aclosing(HttpTransport(running.url, connections=1)) as transport:
        yield partial(control, transport, running.url)


def _demo_settings(folder: Path) -> re.Match[str] | None:
    """The address in the settings that an earlier demo wrote; None for a folder without settings.

    Raises ReconcilerError for settings of anybody else.
    """
    try:
        text = (folder / SETTINGS_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    found = _URL.search(text) if text.startswith(_HEADING) else None
    if found is None:
        raise ReconcilerError(
            f"this folder is a project already: {SETTINGS_FILE} is not the demo's",
            help="run `reconcile demo` in an empty folder",
        )
    return found


def _refuse_other_files(folder: Path) -> None:
    """Raises ReconcilerError where a file of the demo would replace another one."""
    for name, text in _FILES.items():
        file = folder / name
        if file.exists() and file.read_bytes() != text.encode():
            raise ReconcilerError(f"{name} is there already", help="run `reconcile demo` in an empty folder")


async def _refuse_another_state(folder: Path, variables: Mapping[str, str]) -> None:
    """Raises ReconcilerError where a state is, or was, in the place of the demo's."""
    config = ProjectSettings(Settings(), folder, variables=variables)
    async with open_state(config, Opening(read_only=True)) as store:
        state = await store.load()
    if state.lineage or state.traces:
        marks = f"; or move away {', '.join(state.traces)}" if state.traces else ""
        raise ReconcilerError(
            "this folder holds the state of a project, or held one",
            help=f"run `reconcile demo` in a new folder{marks}",
        )


def _running(folder: Path) -> Running | None:
    return running_at(folder / _DB) if (folder / _DB).parent.is_dir() else None


def _start_platform(folder: Path, port: int) -> str:
    """Start the platform's process, unless it runs; returns its address. It outlives this command."""
    running = _running(folder)
    if running is not None:
        return running.url
    (folder / _DB).parent.mkdir(mode=0o700, exist_ok=True)
    words = ("sandbox", "--port", str(port), "--db", _DB, "--clock", SANDBOX_CLOCK)
    with (folder / _LOG).open("w+b") as log:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "reconciler", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        while (running := _running(folder)) is None:
            if process.poll() is not None:
                raise ReconcilerError(f"the emulated platform did not start: {(folder / _LOG).read_text()}")
            time.sleep(0.02)
    process.returncode = 0  # it is meant to go on: without this, Python warns that it does
    return running.url

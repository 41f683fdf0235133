"""Situations that take a whole project: an environment, a repository, an import, an accepted drift."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from reconciler.approvals.creates import unmatched
from reconciler.core.clock import SystemClock
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import Misused
from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.execution.decisions import Actor
from reconciler.planning.declared import Desired
from reconciler.project.desired import missing_sources
from reconciler.project.files import SourceTexts
from reconciler.project.identity import create_state
from reconciler.project.manifests import read_manifests
from reconciler.project.plan import make_plan
from reconciler.project.settings import find_settings
from reconciler.project.store import store_of
from reconciler.state.store import Store
from tests.drift.stage import Stage
from tests.environments.case import load_prod
from tests.importing.scene import Scene, cluster, volume, volumes
from tests.kinds.case import NOW, opened
from tests.revisions.repository import ISOLATED, commit, git

Act = Callable[[str, Path], Sequence[Diagnostic]]  # from the page's manifest and an empty folder

VOLUME = "apiVersion: reconciler/v1\nkind: Volume\nmetadata: {name: %s, app: shop}\nspec: {size_gb: 10}\n"


def of_overlay(base: str) -> Act:
    """What is said of environment `prod`, whose overlay is the page's, over the manifests `base`."""

    def act(overlay: str, folder: Path) -> Sequence[Diagnostic]:
        for name, text in (("manifests/shop.yaml", base), ("overlays/prod/shop.yaml", overlay)):
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_text(text, encoding="utf-8")
        return load_prod(folder).diagnostics

    return act


def of_project(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    """What is said of the page's manifest in a project by itself."""
    (folder / "manifests").mkdir()
    (folder / "manifests/page.yaml").write_text(manifest, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return read_manifests((), find_settings(Path(), {}), SourceTexts(folder)).loaded.diagnostics


def missing_files(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    """What validate says of the files that the page's manifest names."""
    (folder / "manifests").mkdir()
    (folder / "manifests/page.yaml").write_text(manifest, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        config = find_settings(folder, {})
        loaded = read_manifests((), config, SourceTexts(folder)).loaded
        return [*missing_sources(config, (*loaded.resources, *loaded.policies), None)]


# --- environments ---


def of_forgotten_environment(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    """What is said in a project with two environments where none is chosen."""
    for name in ("prod", "test"):
        (folder / "overlays" / name).mkdir(parents=True)
    with pytest.raises(Misused) as refused:
        find_settings(folder, {}).refuse_forgotten_environment()
    return refused.value.diagnostics


def of_environments(*recorded: StateRecord) -> Act:
    """What a plan says that adopts a volume, where environment `prod` has `recorded`, or no state here."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        live = {volumes("shop"): [volume("vol_1")]}
        project, loaded, _ = opened({"manifests": manifest, "live": live}, folder)
        (folder / "reconcile.yaml").write_text("environments: {prod: {}}\n", encoding="utf-8")
        config = find_settings(folder, {})
        if recorded:
            anyio.run(_record, store_of(config.of("prod")), recorded)
        project = dataclasses.replace(project, environments=config)
        return anyio.run(make_plan, project, Desired(loaded.resources)).diagnostics

    return act


async def _record(store: Store, records: Sequence[StateRecord]) -> None:
    actor = Actor(SystemClock(), "test")
    await create_state(store, actor)
    async with actor.leased(store, {each.scope for each in records}) as lease:
        await store.commit(lease, [actor.decided({})], records)
    await store.close()


def of_target(target: str) -> Act:
    """What a plan with this --target says."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        project, loaded, _ = opened({"manifests": manifest}, folder)
        desired = Desired(loaded.resources).with_targets([Address.parse(target)])
        with pytest.raises(Misused) as refused:
            anyio.run(make_plan, project, desired)
        return refused.value.diagnostics

    return act


def of_approval(approved: str) -> Act:
    """What an apply with this --approve-delete says."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        project, loaded, _ = opened({"manifests": manifest, "live": {volumes("shop"): []}}, folder)
        desired = Desired(loaded.resources)
        plan = anyio.run(make_plan, project, desired)
        return anyio.run(unmatched, project, plan, desired.by_address, [approved], ())

    return act


# --- git ---


@contextmanager
def _repository(folder: Path) -> Iterator[None]:
    """For the block, work in an empty repository at `folder`, which has a folder for manifests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            patch.delenv(name)
        for name, value in ISOLATED.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        git(folder, "init", "-q", "-b", "main")
        (folder / "manifests").mkdir()
        yield


def of_repository(
    prepare: Callable[[Path], None], *, ref: str | None = None, changed_since: str | None = None
) -> Act:
    """What is said of a repository that `prepare` fills, read as with --ref and --changed-since."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        with _repository(folder):
            (folder / "manifests/data.yaml").write_text(VOLUME % "data", encoding="utf-8")
            prepare(folder)
            found = find_settings(Path(), os.environ)
            read = read_manifests((), found, SourceTexts(folder), ref=ref, changed_since=changed_since)
            id = git(folder, "rev-parse", "main")[:12]
        told = read.loaded.diagnostics
        return [replace(each, message=each.message.replace(id, "3c1f0e9a72bd")) for each in told]

    return act


def of_untrusted(prepare: Callable[[Path], None]) -> Act:
    """What is said of the page's manifest on a branch of a trusted `main`, which `prepare` fills."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        with _repository(folder):
            prepare(folder)
            commit(folder)
            if manifest:
                (folder / "manifests/page.yaml").write_text(manifest, encoding="utf-8")
            found = find_settings(folder, os.environ, trusted="main")
            paths = sorted(map(str, Path("manifests").iterdir()))
            return read_manifests(paths, found, SourceTexts(folder)).loaded.diagnostics

    return act


def trusted_secret(folder: Path) -> None:
    text = "apiVersion: reconciler/v1\nkind: Secret\nmetadata: {name: API_KEY, app: shop}\n"
    (folder / "manifests/page.yaml").write_text(f"{text}spec: {{value_from: {{env: SHOP_KEY}}}}\n")


def shared_link(folder: Path) -> None:
    (folder / "manifests/shared").symlink_to("/srv/shared")


def add_submodule(folder: Path) -> None:
    first = commit(folder)
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{first},manifests/shared")
    git(folder, "commit", "-q", "-m", "a submodule")


def add_pointer(folder: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d7a' * 16}\nsize 1290\n"
    (folder / "manifests/volumes.yaml").write_text(pointer, encoding="utf-8")
    commit(folder)


def correct_on_a_branch(folder: Path) -> None:
    (folder / "manifests/logs.yaml").write_text("kind: Volume\n", encoding="utf-8")
    commit(folder)
    git(folder, "checkout", "-q", "-b", "correct")
    (folder / "manifests/logs.yaml").write_text(VOLUME % "logs", encoding="utf-8")
    commit(folder)


def begin_on_a_branch(folder: Path) -> None:
    (folder / "manifests").rename(folder / "later")
    (folder / ".gitignore").write_text("later\n", encoding="utf-8")
    commit(folder)
    git(folder, "checkout", "-q", "-b", "begin")
    (folder / "later").rename(folder / "manifests")


def of_focus(focus: str, live: Mapping[str, Any], env: Mapping[str, str] = {}) -> Act:
    """What a plan says that is about the resource `focus` only, as with --changed-since."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        project, loaded, _ = opened({"manifests": manifest, "live": live, "env": env}, folder)
        desired = Desired(loaded.resources, loaded.diagnostics, focus={Address.parse(focus)})
        return anyio.run(make_plan, project, desired).diagnostics

    return act


# --- import and drift ---


def of_import(live: Mapping[str, Any], *apps: str, **wanted: Any) -> Act:
    """What an import of `wanted` says; the page's manifest is there before."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        scene = Scene(folder, dict(live))
        if manifest:
            scene.write(manifest, "policy.yaml")
        return scene.found(*apps, **wanted).diagnostics

    return act


def of_accepted(moved: Mapping[str, Mapping[str, Any]], overlay: str = "", applied: str = "") -> Act:
    """What `drift --accept` says of what somebody changed: why it is not written, or what else that means.

    With `overlay`, the drift is that of the environment `prod`. `applied`: the manifest as it was applied,
    if it was edited since.
    """

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        stage = Stage(folder, moved, environment="prod" if overlay else "")
        if applied:
            stage.write(applied, "manifests/shop.yaml")
            stage.project()
        stage.write(manifest, "manifests/shop.yaml")
        if overlay:
            stage.write(overlay, "overlays/prod/shop.yaml")
        done = stage.accept()
        return [*(refusal.why for refusal in done.refused), *done.remarks]

    return act


TWO_VOLUMES = "---\n".join([VOLUME % "data", VOLUME % "logs"])
POLICY = """\
apiVersion: reconciler/v1
kind: RetentionPolicy
metadata: {name: shop}
spec: {selector: {app: shop}, snapshot_retention: 30}
"""
WORD = "orders0000000000"

ACTS: dict[str, Act] = {
    "bad-overlay-address": of_overlay(VOLUME % "data"),
    "base-has-errors": of_repository(correct_on_a_branch, changed_since="main"),
    "base-has-none": of_repository(begin_on_a_branch, changed_since="main"),
    "cannot-accept": of_accepted({"Volume/shop/data": {"size_gb": 20}}),
    "duplicate-patch": of_overlay(VOLUME % "data"),
    "environment-not-chosen": of_forgotten_environment,
    "environment-not-read": of_environments(),
    "git-submodule": of_repository(add_submodule, ref="main"),
    "import-ambiguous": of_import(
        {volumes(WORD): [], f"/v1/postgres/{WORD}": {"data": cluster()}}, either=[WORD]
    ),
    "import-not-found": of_import({volumes("shop"): [volume("vol_1")]}, objects=[("shop", "data")]),
    "import-objective": of_import({volumes("shop"): [volume("vol_1")]}, "shop"),
    "lfs-pointer": of_repository(add_pointer, ref="main"),
    "needs-unplanned": of_focus("Secret/shop/VOLUME_ID", {"/v1/apps/shop/volumes": []}),
    "not-an-overlay": of_overlay(VOLUME % "data"),
    "not-importable": of_import(
        {volumes("shop"): [volume("vol_1", state="pending_destroy")]}, objects=[("shop", "vol_1")]
    ),
    "not-patchable": of_overlay(VOLUME % "data"),
    "overlay-matches-nothing": of_overlay(VOLUME % "data"),
    "overlay-removes-nothing": of_overlay(VOLUME % "data"),
    "outside-root": of_untrusted(shared_link),
    "own-credential": of_project,
    "recorded-elsewhere": of_environments(
        StateRecord(
            Address("Volume", "data", "shop"), "vol_1", "shop", {}, Lifecycle(), datetime.fromisoformat(NOW)
        )
    ),
    "shared-value": of_accepted(
        {"Volume/shop/data": {"size_gb": 40}}, "Volume/shop/data: {spec: {snapshot_retention: 30}}\n"
    ),
    "source-missing": missing_files,
    "split-app": of_overlay(f"{TWO_VOLUMES}---\n{POLICY}"),
    "unknown-approval": of_approval("Volume/shop/date"),
    "unknown-target": of_target("Volume/shop/date"),
    "untrusted-change": of_untrusted(trusted_secret),
    "unapplied-edit": of_accepted({"Volume/shop/data": {"size_gb": 40}}, applied=VOLUME % "data"),
}

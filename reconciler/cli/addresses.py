"""What a command line names (addresses, kinds, environments, git revisions) and how shells complete it."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from reconciler.core.context import BASE
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address
from reconciler.core.nearest import did_you_mean, nearest
from reconciler.manifests.files import read_files
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.revisions.git import find_repository
from reconciler.manifests.suggestions import pattern_help
from reconciler.policies import find_manifest_kinds
from reconciler.project.sections import Settings
from reconciler.project.settings import ProjectSettings, find_settings, project_root

_MOST_FILES = 300  # more of them would take longer than somebody waits for a Tab
_MOST_REFS = 1000
_GIT_S = 2.0


class AddressType(click.ParamType):  # type: ignore[type-arg] # older releases of click take none
    """An `Address`; completed from the manifests and from what is recorded. `kind`: only of this one."""

    name = "address"

    def __init__(self, kind: str = "") -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        if isinstance(value, Address):
            return value
        try:
            return Address.parse(value)
        except ValueError as failure:
            raise click.UsageError(f"{failure}{other_kind(value)}", ctx) from failure

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        config = _settings(ctx.params.get("env", ""))
        found = {*_declared(config), *_recorded(config, ctx.params.get("state_url"))}
        texts = sorted(str(address) for address in found if self._kind in ("", address.kind))
        return [CompletionItem(text) for text in texts if text.startswith(incomplete)]


class DeclarableType(AddressType):
    """An `Address` that a manifest of its kind can have."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        address = super().convert(value, param, ctx)
        kind, why = find_manifest_kinds().get(address.kind), ""
        if kind is not None and not re.fullmatch(kind.name_pattern, address.name):
            why = f"its name is not valid: {pattern_help(kind.name_pattern)}"
        elif kind is not None and address.ordinal and "count" not in kind.Spec.model_fields:
            why = f"a {kind.name} has no `count`"
        if why:
            raise click.UsageError(f"`{address}` is not an address that a manifest can have: {why}", ctx)
        return address


class CreateType(AddressType):
    """ADDRESS@WORD. Whether it is the word of the state, the state says."""

    name = "address@word"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        address, at, word = value.partition("@")
        return f"{super().convert(address, param, ctx)}{at}{word}"

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return [each.strip() for each in rv.split(",") if each.strip()]


class PathOrAddressType(AddressType):
    """A path or, with --accept, an address. Which of the two, the verb finds out."""

    name = "path or address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        files = CompletionItem(incomplete, type="file")  # first: shells forget what stands before it
        return [files, *(super().shell_complete(ctx, param, incomplete) if ctx.params.get("accept") else ())]


class KindType(click.ParamType):  # type: ignore[type-arg] # likewise
    """The name of a kind."""

    name = "kind"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known = list(find_manifest_kinds())
        if value not in known:
            hint = did_you_mean(value, known) or f"kinds are {', '.join(known)}"
            raise click.UsageError(f"there is no kind `{value}`; {hint}", ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in find_manifest_kinds() if name.startswith(incomplete)]


def other_kind(text: str) -> str:
    """A hint for `volume/shop/data`, or ""."""
    kind, slash, rest = text.partition("/")
    near = nearest(kind, list(find_manifest_kinds())) if slash else ""
    return f"; did you mean `{near}/{rest}`?" if near and near != kind else ""


def complete_environment(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Environments with an overlay, and those with settings of their own; and the name for none of them."""
    names = {BASE, *_settings().environments()}
    return sorted(name for name in names if name.startswith(incomplete))


def complete_ref(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Branches and tags; none where git has no answer, or none quickly."""
    try:
        git = find_repository(_settings().root, os.environ, timeout_s=_GIT_S)
        names = git.text(
            "for-each-ref",
            f"--count={_MOST_REFS}",
            "--format=%(refname:short)",
            "refs/heads",
            "refs/remotes",
            "refs/tags",
        )
    except ReconcilerError:
        return []
    return [name for name in names.splitlines() if name.startswith(incomplete)]


ADDRESS = AddressType()
CREATE = CreateType()
DECLARABLE = DeclarableType()
PATH_OR_ADDRESS = PathOrAddressType()
KIND = KindType()


def _settings(environment: str = "") -> ProjectSettings:
    """Those of the project, and the defaults where they are not valid: nobody reads a message after a Tab."""
    try:
        return find_settings(Path.cwd(), os.environ, environment)
    except ReconcilerError:
        return ProjectSettings(Settings(), project_root(Path.cwd()))


def _declared(config: ProjectSettings) -> Iterator[Address]:
    """What the configured manifests, and those of the environment alone, name; valid or not."""
    folders = [*config.settings.manifests, *([config.overlay] if config.env else [])]
    paths = [str(config.root / folder) for folder in folders if _at_rest(config.root / folder)]
    for name, data in islice(read_files(paths, config.root, None, [], config.settings.overlays), _MOST_FILES):
        for document in compose(data, name).documents:
            address = _address(document.value)
            if address is not None:
                yield address


def _address(manifest: Any) -> Address | None:
    if not isinstance(manifest, dict) or not isinstance(manifest.get("metadata"), dict):
        return None
    name, app = manifest["metadata"].get("name"), manifest["metadata"].get("app")
    try:
        return Address.parse("/".join(str(part) for part in (manifest.get("kind"), app, name) if part))
    except ValueError:
        return None


def _recorded(config: ProjectSettings, state_url: str | None) -> Sequence[Address]:
    from reconciler.cli.event_loop import run  # only a Tab asks the state for addresses
    from reconciler.project.store import Opening, store_of

    async def ids() -> Sequence[Address]:
        store = store_of(config, Opening(state_url, read_only=True))
        try:
            return list((await store.load(())).ids)
        finally:
            await store.close()

    try:
        return run(ids)
    except ReconcilerError:
        return []


def _at_rest(path: Path) -> bool:
    """No pipe: reading one takes what it holds from its real reader, or waits for ever."""
    return path.is_dir() or path.is_file()

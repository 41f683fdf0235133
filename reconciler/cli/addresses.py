"""Parameter types for addresses, kinds, environments and git revisions, and their shell completion."""

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
from reconciler.core.words import did_you_mean, nearest
from reconciler.manifests.files import read_files
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.revisions.git import find_repository
from reconciler.manifests.suggestions import pattern_help
from reconciler.policies import find_manifest_kinds
from reconciler.project.sections import Settings
from reconciler.project.settings import ProjectSettings, find_settings, project_root

_MOST_FILES = 300  # reading more takes longer than a person waits after a Tab
_MOST_REFS = 1000
_GIT_S = 2.0


class AddressType(click.ParamType):  # type: ignore[type-arg] # older releases of click take none
    """An `Address`, completed from the manifests and the records. `kind`: completes only this one."""

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
    """An `Address` that is valid in a manifest of its kind."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        address = super().convert(value, param, ctx)
        kind, why = find_manifest_kinds().get(address.kind), ""
        if kind is not None and not re.fullmatch(kind.name_pattern, address.name):
            why = f"its name is not valid: {pattern_help(kind.name_pattern)}"
        elif kind is not None and address.ordinal and "count" not in kind.Spec.model_fields:
            why = f"the kind {kind.name} has no `count`"
        if why:
            raise click.UsageError(f"`{address}` is not an address that a manifest can have: {why}", ctx)
        return address


class CreateType(AddressType):
    """ADDRESS@WORD. Only the address is checked here; the plan compares the word with the state's."""

    name = "address@word"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        address, at, word = value.partition("@")
        return f"{super().convert(address, param, ctx)}{at}{word}"

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return [text.strip() for text in rv.split(",") if text.strip()]


class PathOrAddressType(AddressType):
    """A path or, with --accept, an address. The verb decides which of the two it is."""

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
    """A hint for an address with a misspelt kind, such as `volume/shop/data`; "" for none."""
    kind, slash, rest = text.partition("/")
    near = nearest(kind, list(find_manifest_kinds())) if slash else ""
    return f"; did you mean `{near}/{rest}`?" if near and near != kind else ""


def complete_environment(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Environments with an overlay or with own settings, and `base`."""
    names = {BASE, *_settings().environments()}
    return sorted(name for name in names if name.startswith(incomplete))


def complete_ref(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Branches and tags; none where git gives no answer in time."""
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
    """The project's settings; the defaults where they are not valid: no message is useful after a Tab."""
    try:
        return find_settings(Path.cwd(), os.environ, environment)
    except ReconcilerError:
        return ProjectSettings(Settings(), project_root(Path.cwd()))


def _declared(config: ProjectSettings) -> Iterator[Address]:
    """Addresses in the configured manifests and in those of the environment alone, valid or not."""
    folders = [*config.settings.manifests, *([config.overlay] if config.env else [])]
    found = [config.root / folder for folder in folders]
    # Reading a pipe would take its content from the real reader.
    paths = [str(path) for path in found if path.is_dir() or path.is_file()]
    for name, data in islice(read_files(paths, config.root, None, [], config.settings.overlays), _MOST_FILES):
        for document in compose(data, name).documents:
            address = _address(document.value)
            if address is not None:
                yield address


def _address(manifest: Any) -> Address | None:
    """The address of a manifest, which may not be valid; None where it has none."""
    if not isinstance(manifest, dict) or not isinstance(manifest.get("metadata"), dict):
        return None
    name, app = manifest["metadata"].get("name"), manifest["metadata"].get("app")
    try:
        return Address.parse("/".join(str(part) for part in (manifest.get("kind"), app, name) if part))
    except ValueError:
        return None


def _recorded(config: ProjectSettings, state_url: str | None) -> Sequence[Address]:
    """Recorded addresses; none where the state cannot be read."""
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

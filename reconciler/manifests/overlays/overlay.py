"""What an environment changes: JSON merge patches (RFC 7386) by address, and manifests of its own.

Addresses in overlays are those of the base manifests, also where a patch moves a resource
into another app. Each value keeps the position where it was written, whichever file that is.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, Span, error, warning
from reconciler.core.model import Address, Path, Relocation
from reconciler.core.words import did_you_mean, nearest
from reconciler.kinds.manifest import ManifestKind
from reconciler.kinds.roles import holds_secrets
from reconciler.manifests.overlays.merge import Merged, with_private_lines
from reconciler.manifests.reading.compose import Document
from reconciler.manifests.reading.refusals import named
from reconciler.manifests.validation.problems import describe, value_at

PATTERN_SIGNS = (b"*", b"?")

_FIXED = (("apiVersion",), ("kind",), ("metadata", "name"))
_APP_NAME = re.compile(ManifestKind.name_pattern)
_ONE_OF_COUNT = re.compile(r"(.*)\[\d+\]")


class Patch(Struct, frozen=True):
    """One entry of an overlay. `glob` is None for an exact address."""

    target: str
    written: Document
    glob: re.Pattern[str] | None

    @property
    def change(self) -> Any:
        """The merge patch itself; None removes the resource."""
        return self.written.value[self.target]

    def value(self, path: Path = ()) -> Span:
        """Return the position of the value at `path` of the patch, or of the nearest one around it."""
        return self.written.span((self.target, *path))

    def key(self, path: Path = ()) -> Span:
        """Return the position of the key at `path` of the patch, or of the nearest one around it."""
        return self.written.key_span((self.target, *path))


class Overlays:
    """The overlays of one environment, in the order of files, documents and entries; later ones win.

    `manifests`: documents that exist only in this environment. `problems`: those of entries.
    """

    def __init__(self, documents: Iterable[Document], kinds: Mapping[str, ManifestKind]) -> None:
        self._kinds = kinds
        self.manifests: list[Document] = []
        self.problems: list[Diagnostic] = []
        self._exact: dict[str, list[tuple[int, Patch]]] = defaultdict(list)
        self._globs: list[tuple[int, Patch]] = []
        self._patches: list[Patch] = []
        self._matched: set[int] = set()
        self._effective: set[tuple[int, Path]] = set()  # the removals that removed something
        self._seen: set[Address] = set()
        self._addresses: dict[Address, Address] = {}  # in this environment, by those of the manifests
        self._bases: dict[Address, Address] = {}  # the other way round, where the two differ
        self._removed: dict[Address, Span] = {}
        for document in documents:
            self._read(document)
        self._refuse_doubles()

    # --- reading ---

    def _read(self, document: Document) -> None:
        if isinstance(document.value, dict) and _is_manifest(document.value):
            self.manifests.append(document)
            return
        if not isinstance(document.value, dict):
            problem = error(
                "not-an-overlay",
                f"expected a mapping of addresses to patches, or a manifest, found "
                f"{describe(document.value, secret=True)}",
                document.span(()),
                help="write an address such as `Volume/shop/data:`, and below it the fields that differ",
            )
            self.problems.append(problem)
            return
        written = with_private_lines(document, self._may_hold_secrets)
        for target in document.value:
            patch = Patch(target, written, _glob(target) if set(target) & set("*?") else None)
            found = [*self._wrong(patch)]
            self.problems += found
            if not found:
                number = len(self._patches)
                self._patches.append(patch)
                if patch.glob is None:
                    self._exact[target].append((number, patch))
                else:
                    self._globs.append((number, patch))

    def _wrong(self, patch: Patch) -> Iterator[Diagnostic]:
        """Yield the problems of an entry by itself."""
        target, change = patch.target, patch.change
        if numbered := _ONE_OF_COUNT.fullmatch(target):
            yield error(
                "bad-overlay-address",
                "the objects of one manifest's `count` are patched together",
                patch.key(),
                help=f"write `{numbered[1]}`",
            )
            return
        if patch.glob is None and not _is_address(target):
            yield error(
                "bad-overlay-address",
                f"`{target}` is not an address",
                patch.key(),
                help="write an address such as `Volume/shop/data`, a pattern such as `*/shop/*`, or a whole "
                "manifest with `apiVersion`",
            )
            return
        if change is not None and not isinstance(change, dict):
            yield error(
                "wrong-type",
                f"expected a mapping or null, found {describe(change, secret=True)}",
                patch.value(),
                help="a patch holds fields as the manifest does; null takes the manifest out",
            )
            return
        for path in _FIXED:
            holder = value_at(change, path[:-1])
            if isinstance(holder, dict) and path[-1] in holder:
                yield error(
                    "not-patchable",
                    f"`{'.'.join(path)}` cannot be patched: it says which resource this is",
                    patch.key(path),
                    help="remove it; for another resource, take this one out with `null` and write a whole "
                    "manifest beside the patches",
                )
        if isinstance(change, dict) and not isinstance(change.get("metadata", {}), dict):
            yield error(
                "not-patchable",
                "`metadata` can be patched field by field only: it says which resource this is",
                patch.value(("metadata",)),
            )

    def _refuse_doubles(self) -> None:
        """Refuse a field that two exact patches give: the order of files must not decide."""
        for patches in self._exact.values():
            given: dict[Path, Patch] = {}
            for _, patch in patches:
                doubles: dict[Path, Path] = {}  # the fields given again, by their paths in the patch
                for path in _leaves(patch.change):
                    first = next((other for other in given if _overlap(path, other)), None)
                    if first is None:
                        given[path] = patch
                    elif given[first] is not patch:
                        doubles.setdefault(path[: len(first)], first)
                for path, first in doubles.items():
                    self.problems.append(_double(given[first], first, patch, path))

    def _may_hold_secrets(self, target: str) -> bool:
        """Whether the entry for `target` is for a kind that holds secrets, or for an unknown one."""
        pattern = _glob(target.partition("/")[0])
        kinds = [kind for name, kind in self._kinds.items() if pattern.fullmatch(name)]
        return not kinds or any(map(holds_secrets, kinds))

    # --- patching ---

    def apply(self, document: Document) -> Document | None:
        """Return `document` as it is in this environment; None if it is removed."""
        address = self._address(document)
        if address is None:
            return document
        self._seen.add(address)
        merged = Merged(document)
        name = str(address)
        patches = [*self._exact.get(name, ())]
        patches += (entry for entry in self._globs if entry[1].glob and entry[1].glob.fullmatch(name))
        gone: Patch | None = None
        for number, patch in sorted(patches, key=lambda numbered: numbered[0]):
            self._matched.add(number)
            if gone is not None:
                if gone.glob is not None and patch.glob is None and patch.change is not None:
                    self.problems.append(_patched_though_gone(gone, patch))
            elif patch.change is None:
                gone = patch
            else:
                removed = merged.patch(patch.change, (patch.target,), patch.written)
                self._effective.update((number, path) for path in removed)
        if gone is not None:
            self._removed[address] = gone.key()
            return None
        done = merged.document
        here = self._addresses[address] = self._address(done) or address
        if here != address:
            self._bases[here] = address
        return done

    def _address(self, document: Document) -> Address | None:
        value = document.value
        metadata = value.get("metadata") if isinstance(value, dict) else None
        kind = self._kinds.get(value["kind"]) if metadata and isinstance(value.get("kind"), str) else None
        if kind is None or not isinstance(metadata, dict):
            return None
        name, app = metadata.get("name"), metadata.get("app")
        if not isinstance(name, str) or (kind.in_app and not isinstance(app, str)):
            return None
        return Address(kind.name, name, app if kind.in_app else None)

    # --- after all manifests ---

    def relocation(self) -> Relocation | None:
        """Return the addresses of manifests in this environment; None if none has moved."""
        here = {
            base: found if found.app is None or _APP_NAME.fullmatch(found.app) else base
            for base, found in self._addresses.items()
        }
        if all(base == found for base, found in here.items()):
            return None
        apps: dict[tuple[str, str], set[str]] = defaultdict(set)
        for base, found in here.items():
            if base.app is not None and found.app is not None:
                apps[base.kind, base.app].add(found.app)
        return Relocation(here, {key: frozenset(found) for key, found in apps.items()})

    def base(self, address: Address) -> Address | None:
        """Return the address in the manifests of this environment's `address`; None if it is the same."""
        return self._bases.get(address)

    def removes(self, address: Address) -> bool:
        """Whether the manifest with this address, as it is without the overlay, is removed."""
        return address in self._removed

    def why_missing(self, address: Address) -> tuple[str, ...]:
        """Return notes for a reference to an address that does not exist here."""
        span = self._removed.get(address)
        return (f"removed at {span.place}",) if span is not None else ()

    def unused(self) -> Iterator[Diagnostic]:
        """Yield a problem for every entry that matched no manifest, or removed nothing."""
        known = sorted(map(str, self._seen))
        for number, patch in enumerate(self._patches):
            if number not in self._matched:
                near, build = _nearest(patch, known), command("build")
                problem = error(
                    "overlay-matches-nothing",
                    f"no manifest declares {patch.target}"
                    if patch.glob is None
                    else f"no manifest's address is like {patch.target}",
                    patch.key(),
                    help=near or f"addresses are those of the base manifests: see `{build}` without --env",
                    advice=() if near else (build,),
                )
                yield problem
                continue
            for path in _leaves(patch.change):
                if path and value_at(patch.change, path) is None and (number, path) not in self._effective:
                    problem = warning(
                        "overlay-removes-nothing",
                        f"`{_named(patch, path)}` is not there to be removed",
                        patch.key(path),
                        help="check its name, or remove this line",
                    )
                    yield problem


def _is_manifest(value: Mapping[str, Any]) -> bool:
    return "apiVersion" in value or ("kind" in value and "metadata" in value)


def _glob(text: str) -> re.Pattern[str]:
    """Return a pattern: `*` stands for any text within one part of an address, `?` for one character."""
    return re.compile(re.escape(text).replace(r"\*", "[^/]*").replace(r"\?", "[^/]"))


def _is_address(text: str) -> bool:
    try:
        Address.parse(text)
    except ValueError:
        return False
    return True


def _leaves(change: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the fields that a patch gives or removes."""
    if not isinstance(change, dict):
        yield path
        return
    for name, value in change.items():
        yield from _leaves(value, (*path, name))


def _overlap(one: Path, other: Path) -> bool:
    size = min(len(one), len(other))
    return one[:size] == other[:size]


def _named(patch: Patch, path: Path) -> str:
    """Return the field at `path` of `patch`, without its name if that may be a value, as in {hunter2}."""
    value = patch.value(path)
    may_be_a_value = (
        value.private and value_at(patch.change, path) is None and value.column == value.end_column
    )
    return named((*path[:-1], "…") if may_be_a_value else path)


def _double(first: Patch, at: Path, second: Patch, path: Path) -> Diagnostic:
    what = f"`{_named(second, path)}` of {second.target}" if path else second.target
    return error(
        "duplicate-patch",
        f"{what} is patched twice",
        second.key(path),
        notes=(f"first at {first.key(at).place}",),
        help="remove one of the two",
    )


def _patched_though_gone(gone: Patch, patch: Patch) -> Diagnostic:
    return error(
        "duplicate-patch",
        f"{patch.target} is patched and taken out",
        patch.key(),
        notes=(f"taken out at {gone.key().place}",),
        help="remove one of the two, or write narrower patterns",
    )


def _nearest(patch: Patch, known: Sequence[str]) -> str:
    if patch.glob is None:
        return did_you_mean(patch.target, known)
    parts = patch.target.split("/")
    alike = [address.split("/") for address in known if address.count("/") == len(parts) - 1]
    meant = [_part(part, {address[at] for address in alike}) for at, part in enumerate(parts)]
    found = _glob("/".join(meant))
    better = meant != parts and any(map(found.fullmatch, known))
    return f"did you mean `{'/'.join(meant)}`?" if better else ""


def _part(part: str, choices: Collection[str]) -> str:
    if "*" in part or "?" in part or part in choices:
        return part
    return nearest(part, sorted(choices)) or part

"""A second run parses only what changed, from a cache that can be lost, damaged or forged without a trace."""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.model import Resource
from reconciler.manifests import known as known_module
from reconciler.manifests import stored as stored_module
from reconciler.manifests.known import Known
from reconciler.manifests.load import Loaded, load
from reconciler.manifests.reading.lines import line_values
from reconciler.manifests.stored import Stored, stored
from tests.manifests.conftest import codes, policy, volume
from tests.reliability.fuzz.mutation import make_files

SECRET = "---\napiVersion: reconciler/v1\nkind: Secret\nmetadata: {name: A, app: shop}\nspec: "


class Place:
    """A project and its user's folder of caches. `composed`: the files that the last run read as YAML."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.caches = folder / "caches" / "reconciler"
        self.root.mkdir()
        self.composed: list[bytes] = []

    def write(self, **files: str | bytes) -> None:
        for name, text in files.items():
            content = text.encode() if isinstance(text, str) else text
            (self.root / f"{name}.yaml").write_bytes(content)

    def load(self, caches: Path | None = None, **options: Any) -> Loaded:
        self.composed.clear()
        known = Known(stored(caches or self.caches, self.root))
        found = load(["."], root=self.root, known=known, **options)
        known.save()
        return found

    @property
    def file(self) -> Path:
        (found,) = self.caches.iterdir()
        return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(tmp_path)

    def noted(data: bytes) -> list[Any] | None:
        found.composed.append(data)
        return line_values(data)

    monkeypatch.setattr(known_module, "BYTES_WORTH_KEEPING", 1)
    monkeypatch.setattr(known_module, "line_values", noted)
    monkeypatch.chdir(found.root)
    return found


def told(found: Loaded) -> tuple[Any, ...]:
    """All that a run can know of what it has loaded."""
    return (
        list(map(_whole, found.resources)),
        list(map(_whole, found.policies)),
        found.diagnostics,
        found.files,
        sorted(map(str, found.claimed)),
        found.complete,
    )


def _whole(resource: Resource) -> tuple[Any, ...]:
    spec = resource.spec
    spans = {path: resource.span(*path) for path in resource.spans}
    return replace(resource, spans={}), repr(spec), sorted(spec.model_fields_set), list(spans.items())


# --- what it saves ---


def test_the_next_run_composes_only_what_has_changed(place: Place) -> None:
    place.write(
        a=volume("a"),
        b=volume("b") + volume("c"),
        p=policy("p", "{selector: {app: shop}, snapshot_retention: 9}"),
    )
    cold = place.load()
    assert len(place.composed) == 3
    assert told(place.load()) == told(cold)
    assert place.composed == []
    place.write(b=volume("b", "{size_gb: 12}") + volume("c"))
    assert {each.spec.size_gb for each in place.load().resources} == {10, 12}
    assert place.composed == [(volume("b", "{size_gb: 12}") + volume("c")).encode()]


def test_a_file_that_moved_is_known(place: Place) -> None:
    place.write(a=volume("a"))
    place.load()
    (place.root / "a.yaml").rename(place.root / "z.yaml")
    (resource,) = place.load().resources
    assert place.composed == []
    span = resource.span("metadata", "name")
    assert span is not None
    assert span.place == "z.yaml:4:18"


def test_a_diagnostic_about_what_is_known_points_at_its_text(place: Place) -> None:
    place.write(a="# a comment\n\n" + volume("a"), b=volume("b", "{from: {volume: a}}"))
    place.load()
    (place.root / "a.yaml").unlink()
    warm = place.load()
    assert place.composed == []
    assert codes(warm) == ["unknown-reference"]
    assert told(warm) == told(place.load(place.root / "nowhere" / "nowhere"))
    place.write(c=volume("b"))
    warm = place.load()
    assert codes(warm) == ["unknown-reference", "duplicate-address"]
    assert told(warm) == told(place.load(place.root / "nowhere" / "nowhere"))


def test_a_thousand_files_are_one_file_there(place: Place) -> None:
    for number in range(1000):
        place.write(**{f"v{number}": volume(f"v{number}")})
    place.load()
    assert place.file.is_file()
    place.load()
    assert place.composed == []


def test_a_small_project_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_module, "BYTES_WORTH_KEEPING", 1000)
    place.write(a=volume("a"))
    place.load()
    assert not place.caches.parent.exists()


def test_environments_share_it_but_for_what_they_patch(place: Place) -> None:
    place.write(a=volume("a"), b=volume("b"))
    overlay = place.root / "overlays" / "prod"
    overlay.mkdir(parents=True)
    (overlay / "patch.yaml").write_text("Volume/shop/a: {spec: {size_gb: 30}}\n")
    cold = place.load(overlay="overlays/prod")
    warm = place.load(overlay="overlays/prod")
    assert place.composed == [volume("a").encode()]
    assert told(warm) == told(cold)
    assert [each.spec.size_gb for each in place.load().resources] == [10, 10]
    place.load(overlay="overlays/prod")
    assert place.composed == []


# --- equal in every way ---


@pytest.mark.parametrize("seed", range(40))
def test_cold_warm_partly_changed_and_damaged_are_the_same(place: Place, seed: int) -> None:
    rng = Random(seed)
    harmless = {
        f"v{number}": volume(f"v{number}", rest="lifecycle: {timeout_s: 60}\n") for number in range(4)
    }
    mutated = dict(enumerate(content for _ in range(5) for content in make_files(rng).contents))
    place.write(**harmless, **{f"m{number}": content for number, content in mutated.items()})
    cold = told(place.load())
    assert told(place.load()) == cold
    place.file.write_bytes(_damaged(place.file.read_bytes(), rng))
    assert told(place.load()) == cold
    place.write(v2=volume("v2", "{size_gb: 12}"), m0=make_files(rng).contents[0])
    partly = told(place.load())
    assert partly == told(place.load(place.root / "nowhere" / "nowhere"))
    assert told(place.load()) == partly


def _damaged(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data))
    end = at + rng.randrange(20)
    return rng.choice((data[:at], data[:at] + rng.randbytes(end - at) + data[end:], data[:at] + data[end:]))


def test_no_flipped_bit_and_no_cut_changes_what_is_loaded(place: Place) -> None:
    place.write(a=volume("a"), b=volume("b"))
    cold = place.load()
    whole = place.file.read_bytes()
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            place.file.write_bytes(damaged)
            found = place.load()
            assert found == cold, damaged
            assert place.composed, damaged


def test_an_entry_that_was_put_under_another_file_is_not_taken(place: Place) -> None:
    place.write(a=volume("a"), b=volume("b"))
    place.load()
    header, first, second = place.file.read_bytes().split(b"\n")
    swapped = first[:64] + second[64:]
    place.file.write_bytes(b"\n".join((header, swapped)))
    assert [each.address.name for each in place.load().resources] == ["a", "b"]
    assert len(place.composed) == 2


def test_another_version_of_the_code_does_not_read_it(place: Place) -> None:
    place.write(a=volume("a"))
    place.load()
    data = volume("a").encode()
    version = stored_module._version()
    assert version is not None
    assert Stored(place.caches, place.root, version).take(data) is not None
    assert Stored(place.caches, place.root, "another").take(data) is None


# --- what is never there ---

PRIVATE = {
    "a secret": SECRET + "{value_from: {env: HUNTER2}}\n",
    "a volume beside a secret": volume("a") + SECRET + "{value_from: {env: HUNTER2}}\n",
    "a secret spelt in escapes": SECRET.replace("Secret", '"S\\x65cret"')
    + '{"value\\x5ffrom": {env: HUNTER2}}\n',
    "a label spelt in escapes": volume("a", metadata=', labels: {"pa\\x73sword": HUNTER2}'),
    "a file of sops spelt in escapes": "x: HUNTER2\n\"so\\x70s\": {mac: a, version: '3'}\n",
    "a literal": SECRET + "{value: HUNTER2}\n",
    "a misspelt kind": SECRET.replace("Secret", "Secrat") + "{text: HUNTER2}\n",
    "a provider": "apiVersion: reconciler/v1\nkind: ExtensionProvider\nmetadata: {name: acme}\n"
    "spec: {base_url: 'https://acme.example', signing_secret_from: {env: HUNTER2}}\n",
    "an unknown field": volume("a", "{size_gb: 10, admin: HUNTER2}"),
    "an error": volume("a", "{region: HUNTER2, size_gb: ten}"),
    "a warning": volume("a", "{region: HUNTER2, encrypted: yes}"),
    "a label that holds a value": volume("a", metadata=", labels: {String_Data: HUNTER2}"),
    "a label that is a password": volume("a", metadata=", labels: {db_PASSWORD: HUNTER2}"),
    "a label with a user": volume("a", metadata=", labels: {db: 'postgres://me:HUNTER2@db'}"),
    "a label with a user and a slash": volume("a", metadata=", labels: {db: 'postgres://me:x/HUNTER2@db'}"),
    "a comment": volume("a", metadata=", labels: {tier: HUNTER2}") + "# the token\n",
    "a file of sops": "x: HUNTER2\nsops: {mac: a, version: '3'}\n",
    "an anchor": volume("a", "{region: &here HUNTER2}"),
    "a syntax error": volume("a", "{region: HUNTER2}") + "---\n[",
    "no manifest": "- HUNTER2\n",
}


@pytest.mark.parametrize("text", PRIVATE.values(), ids=PRIVATE)
def test_what_may_be_secret_or_wrong_is_composed_each_time(place: Place, text: str) -> None:
    place.write(a=text, other=volume("other"))
    first = place.load()
    assert place.file.read_bytes().count(b"\n") == 1  # the other one
    assert b"HUNTER2" not in place.file.read_bytes()
    assert told(place.load()) == told(first)
    assert place.composed == [text.encode()]


def test_a_problem_of_several_files_keeps_them_out(place: Place) -> None:
    place.write(a=volume("a"), b=volume("a"), c=volume("c"))
    place.load()
    place.load()
    assert place.composed == [volume("a").encode()]  # both: their bytes are the same


def test_a_file_whose_reference_leads_nowhere_is_kept_out(place: Place) -> None:
    place.write(a=volume("a", "{from: {volume: b}}"), c=volume("c"))
    assert codes(place.load()) == ["unknown-reference"]
    assert codes(place.load()) == ["unknown-reference"]
    assert place.composed == [volume("a", "{from: {volume: b}}").encode()]


def test_what_comes_from_a_pipe_or_from_elsewhere_is_not_kept(place: Place, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.yaml").write_text(volume("a"))
    known = Known(stored(place.caches, place.root))
    paths = ["-", str(tmp_path / "elsewhere.yaml")]
    found = load(paths, root=place.root, stdin=lambda: volume("b").encode(), known=known)
    known.save()
    assert [each.address.name for each in found.resources] == ["b", "a"]
    assert not place.caches.exists()


def test_nothing_is_kept_inside_of_a_checkout(place: Place) -> None:
    place.write(a=volume("a"))
    assert stored(place.root / "caches", place.root) is None
    (place.root.parent / ".git").mkdir()
    assert stored(place.caches, place.root) is None
    assert stored(None, place.root) is None


# --- the folder ---


def test_only_the_user_can_read_it(place: Place) -> None:
    before = os.umask(0)
    try:
        place.write(a=volume("a"))
        place.load()
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.caches.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.file.stat().st_mode) == 0o600


def _wider_folder(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.caches.chmod(0o750)


def _wider_file(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.file.chmod(0o604)


def _link(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    file = place.file
    file.rename(place.caches.parent / "moved")
    file.symlink_to(place.caches.parent / "moved")


def _pipe(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    file = place.file
    file.unlink()
    os.mkfifo(file, 0o600)


def _another_owner(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)


def _too_large(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_module, "MOST_BYTES", place.file.stat().st_size - 1)


def _gone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.file.unlink()
    place.caches.rmdir()


CHANGES: Sequence[Callable[[Place, pytest.MonkeyPatch], None]] = (
    _wider_folder,
    _wider_file,
    _link,
    _pipe,
    _another_owner,
    _too_large,
    _gone,
)


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_the_users_alone_is_as_if_it_was_not_there(
    place: Place, monkeypatch: pytest.MonkeyPatch, change: Callable[[Place, pytest.MonkeyPatch], None]
) -> None:
    place.write(a=volume("a"))
    cold = place.load()
    change(place, monkeypatch)
    assert place.load() == cold
    assert place.composed == [volume("a").encode()]


def test_a_home_that_cannot_be_written_changes_nothing(place: Place, tmp_path: Path) -> None:
    place.write(a=volume("a"))
    (tmp_path / "file").write_text("")
    for caches in (tmp_path / "file" / "caches" / "reconciler", tmp_path / "no" / "home" / "reconciler"):
        assert codes(place.load(caches)) == []
        assert not caches.parent.exists()


@pytest.mark.parametrize("when", ["while it is written", "when it takes its place"])
def test_a_full_disk_changes_nothing_and_leaves_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def full(*arguments: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    if when == "while it is written":
        monkeypatch.setattr(Stored, "_header", full)
    else:
        monkeypatch.setattr(Path, "replace", full)
    place.write(a=volume("a"))
    assert codes(place.load(place.caches)) == []
    assert list(place.caches.iterdir()) == []


# --- its size ---


def test_it_is_bounded_and_prefers_what_was_used_last(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(a=volume("a"), b=volume("b"))
    place.load()
    both = place.file.stat().st_size
    place.write(a=volume("a", "{size_gb: 11}"))
    monkeypatch.setattr(stored_module, "MOST_BYTES", both + 10)
    place.load()
    assert place.file.stat().st_size <= both + 10
    place.load()
    assert place.composed == []
    place.write(a=volume("a"))
    place.load()
    assert place.composed == [volume("a").encode()]


def test_what_a_part_of_the_project_does_not_use_is_kept(place: Place) -> None:
    place.write(a=volume("a"), b=volume("b"))
    place.load()
    place.write(a=volume("a", "{size_gb: 11}"))
    known = Known(stored(place.caches, place.root))
    load(["a.yaml"], root=place.root, known=known)
    known.save()
    place.load()
    assert place.composed == []


def test_the_projects_that_were_written_longest_ago_are_dropped(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        place.write(a=volume(f"a{number}"))
        known = Known(stored(place.caches, place.root / str(number)))
        load(["."], root=place.root, known=known)
        known.save()
        newest = max(place.caches.iterdir(), key=lambda each: each.stat().st_mtime_ns)
        os.utime(newest, (number, number))
    assert len(list(place.caches.iterdir())) == 5
    size = newest.stat().st_size
    monkeypatch.setattr(stored_module, "MOST_BYTES_OF_ALL", 2 * size + size // 2)
    (place.caches / "of somebody else").write_text("kept" * size)
    place.load()
    kept = [each for each in place.caches.iterdir() if each.name.startswith("manifests-")]
    assert newest in kept
    assert len(kept) == 2

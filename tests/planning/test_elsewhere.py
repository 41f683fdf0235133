"""What other manifest files say is looked up before planning, and only where a plan can depend on it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from reconciler.core.model import Address, Lifecycle, Resource, StateRecord
from reconciler.manifests.load import load
from reconciler.moves.compare import Elsewhere
from reconciler.planning.declared import Desired
from reconciler.project.gather import look_elsewhere
from tests.inprocess import volume

GIVEN, OTHER = "given.yaml", "other.yaml"


def resources(folder: Path, text: str) -> Sequence[Resource]:
    folder.joinpath(GIVEN).write_text(text, encoding="utf-8")
    return load([str(folder / GIVEN)], root=folder).resources


def record(name: str, source: str = OTHER, **applied: object) -> StateRecord:
    address = Address("Volume", name, "shop")
    known = {"name": name, "region": "ams", **applied}
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    return StateRecord(address, f"vol_{name}", "shop", known, Lifecycle(), long_ago, source, serial=1)


class Files:
    """The other files: which addresses they declare, and which records were asked about."""

    def __init__(self, *declared: str, moved: Mapping[str, str] | None = None) -> None:
        self._declared = declared
        self._moved = moved or {}
        self.asked: list[str] = []
        self.asked_moved: list[str] = []

    def look(
        self, resources: Sequence[Resource], *records: StateRecord, focus: Sequence[Address] | None = None
    ) -> Elsewhere:
        desired = Desired(
            resources,
            selected=lambda record: record.source == GIVEN,
            focus=focus,
            declared=self._declares,
            moved=self._entry,
        )
        return look_elsewhere(desired, {each.address: each for each in records})

    def _declares(self, record: StateRecord) -> bool:
        self.asked.append(record.address.name)
        return record.address.name in self._declared

    def _entry(self, address: Address) -> str:
        self.asked_moved.append(address.name)
        return self._moved.get(address.name, "")


def names(addresses: frozenset[Address]) -> set[str]:
    return {address.name for address in addresses}


def test_no_file_is_read_where_no_resource_is_new(tmp_path: Path) -> None:
    files = Files()
    found = files.look(resources(tmp_path, volume("a")), record("a", GIVEN), record("b"), record("c", GIVEN))
    assert (names(found.not_given), found.gone, found.moved) == ({"b"}, frozenset(), {})
    assert (files.asked, files.asked_moved) == ([], [])


def test_no_file_is_read_for_what_a_new_resource_cannot_be(tmp_path: Path) -> None:
    files = Files()
    files.look(resources(tmp_path, volume("new")), record("b", region="fra"), record("c", GIVEN, size_gb=20))
    files.look(resources(tmp_path, volume("new", "web")), record("b"), record("c", GIVEN))
    assert (files.asked, files.asked_moved) == ([], [])


def test_what_a_new_resource_may_be_is_looked_up_and_nothing_beside(tmp_path: Path) -> None:
    files = Files("b")
    found = files.look(
        resources(tmp_path, volume("new")), record("b"), record("c"), record("d", region="fra")
    )
    assert files.asked == ["b", "c"]
    assert (names(found.not_given), names(found.gone)) == ({"b", "c", "d"}, {"c"})
    assert files.asked_moved == ["c"]  # `b` is declared: it has not moved


def test_moves_are_looked_up_for_what_left_the_given_files(tmp_path: Path) -> None:
    files = Files(moved={"old": "`Moved/m` in other.yaml"})
    found = files.look(resources(tmp_path, volume("new")), record("old", GIVEN))
    assert found.moved[Address("Volume", "old", "shop")] == "`Moved/m` in other.yaml"
    assert (found.not_given, found.gone, files.asked) == (frozenset(), frozenset(), [])


def test_only_the_resources_in_focus_ask(tmp_path: Path) -> None:
    files = Files()
    given = resources(tmp_path, volume("new") + volume("kept", size_gb=20))
    focus = [Address("Volume", "kept", "shop")]
    found = files.look(given, record("kept", GIVEN), record("old"), focus=focus)
    assert (names(found.not_given), files.asked) == ({"old"}, [])


def test_the_source_of_a_fork_is_looked_up_although_nothing_new_can_be_that_source(tmp_path: Path) -> None:
    """Whether the fork may be the same depends on whether its source has another name."""
    files = Files()
    given = resources(tmp_path, volume("base", size_gb=20) + volume("copy", more=", from: {volume: base}"))
    source = record("former", region="fra", size_gb=99)
    found = files.look(given, source, record("clone", origin={"volume": "former"}))
    assert sorted(files.asked) == ["clone", "former"]
    assert names(found.gone) == {"former", "clone"}

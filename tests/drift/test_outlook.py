"""What looks foretell, which size is proposed, and what is written of it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.errors import Refused
from reconciler.core.model import Resource
from reconciler.drift.outlook import Outlook, outlook_of, propose
from reconciler.kinds.roles import Look
from reconciler.kinds.volume.kind import VolumeKind
from reconciler.manifests.load import load

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 2**30
LINE = [50 + 1.0 * day for day in range(31)]  # 80 of 100 GB on day 30, and full on day 50


def looks(levels: Sequence[float], size_gb: int = 100) -> list[Look]:
    """One a day."""
    return [
        Look(BEGIN + timedelta(days=day), size_gb, round(level * GIB), size_gb * GIB, True)
        for day, level in enumerate(levels)
    ]


def declared(root: Path, spec: str, rest: str = "", overlay: str = "") -> list[Resource]:
    file = root / "manifests/a.yaml"
    file.parent.mkdir()
    file.write_text(
        "# first\napiVersion: reconciler/v1\nkind: Volume\nmetadata: {name: data, app: shop}\n"
        f"spec:\n  region: ams\n  {spec}  # second\n{rest}"
    )
    if overlay:
        (root / "o").mkdir()
        (root / "o/a.yaml").write_text(overlay)
    found = load([str(file)], root=root, overlay=str(root / "o") if overlay else None)
    assert found.diagnostics == ()
    return list(found.resources)


def foretold(resource: Resource, levels: Sequence[float], days: float = 60) -> Outlook:
    until = BEGIN + timedelta(days=len(levels) - 1 + days)
    return outlook_of(VolumeKind(), resource, "vol_1", looks(levels), until)


@pytest.mark.parametrize(
    ("spec", "rest", "path", "value"),
    [
        ("size_gb: 100", "", ("spec", "size_gb"), 208),
        ("size_gb: 100", "lifecycle: {alert_at: 95%}\n", ("spec", "size_gb"), 173),
        ("size_gb: {min: 10, max: 500}", "", ("spec", "size_gb", "min"), 208),
        ("size_gb: {min: 10, max: 150}", "", ("spec", "size_gb", "min"), 150),
        ("size_gb: {min: 10, max: 100}", "", None, None),
        ("snapshot_retention: 5", "", None, None),
    ],
)
def test_the_size_that_is_enough_is_proposed_within_the_range(
    tmp_path: Path, spec: str, rest: str, path: Any, value: Any
) -> None:
    found = foretold(declared(tmp_path, spec, rest)[0], LINE)
    assert found.full == BEGIN + timedelta(days=50)
    edit = found.proposed
    assert (edit.path, edit.value) == (path, value) if edit is not None else path is None


def test_a_volume_that_grows_by_itself_is_full_at_the_end_of_its_range_and_a_person_decides(
    tmp_path: Path,
) -> None:
    grow = "lifecycle: {grow: {at: 85%, by: 20%, most_gb_per_day: 100}}\n"
    found = foretold(declared(tmp_path, "size_gb: {min: 10, max: 120}", grow)[0], LINE)
    assert (found.full, found.proposed) == (BEGIN + timedelta(days=70), None)


@pytest.mark.parametrize(
    "levels",
    [
        [80, 90],
        [80.0] * 31,
        [90 - 0.5 * day for day in range(31)],
        [50.0] * 16 + [90.0] * 15,
        [60 + 10 * (day % 4) for day in range(31)],
        [*LINE[:15], 30, *LINE[:15]],
        [*[80.0] * 28, 95, 96],
    ],
    ids=["two looks", "still", "less and less", "one step", "a saw", "cleaned up once", "a jump"],
)
def test_what_may_as_well_stay_is_not_foretold(tmp_path: Path, levels: Sequence[float]) -> None:
    found = foretold(declared(tmp_path, "size_gb: 100")[0], levels)
    assert (found.full, found.proposed) == (None, None)


def test_it_looks_ahead_twice_as_far_as_it_looks_back(tmp_path: Path) -> None:
    (resource,) = declared(tmp_path, "size_gb: 100")
    assert foretold(resource, LINE[:5]).full is None  # 54 GB after four days: full in 46
    assert foretold(resource, LINE[:19]).full == BEGIN + timedelta(days=50)
    assert foretold(resource, LINE[:19], days=30).full is None


def test_odd_looks_change_nothing(tmp_path: Path) -> None:
    (resource,) = declared(tmp_path, "size_gb: 100")
    odd = [*LINE]
    odd[12], odd[20] = 3, 99
    assert foretold(resource, odd).full == foretold(resource, LINE).full


def test_proposals_are_written_where_the_manifests_stand(tmp_path: Path) -> None:
    resources = declared(tmp_path, "size_gb: {min: 10, max: 500}\n  count: 2")
    before = (tmp_path / "manifests/a.yaml").read_text()
    found = [foretold(resources[0], LINE), foretold(resources[1], [*LINE, 82, 84])]
    assert [each.proposed.value for each in found if each.proposed] == [208, 208]
    second = found[1].proposed
    assert second is not None
    found[1] = replace(found[1], proposed=replace(second, value=250))
    (wrote,) = propose(found, tmp_path, tmp_path / "pull/request")
    assert (wrote.path, wrote.before, wrote.after) == ("size_gb.min", 10, 250)
    text = (tmp_path / "pull/request/manifests/a.yaml").read_text()
    assert text == before.replace("min: 10", "min: 250")
    assert (tmp_path / "manifests/a.yaml").read_text() == before
    propose(found, tmp_path, tmp_path)
    assert (tmp_path / "manifests/a.yaml").read_text() == text


def test_a_size_that_an_overlay_gives_is_left_to_people(tmp_path: Path) -> None:
    patch = "Volume/shop/data: {spec: {size_gb: 100}}\n"
    (resource,) = declared(tmp_path, "size_gb: 50", overlay=patch)
    found = foretold(resource, LINE)
    assert found.full is not None
    assert found.proposed is None


def test_a_manifest_that_changed_meanwhile_or_is_elsewhere_is_not_written(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    found = [foretold(declared(root, "size_gb: 100")[0], LINE)]
    file = root / "manifests/a.yaml"
    file.write_text(file.read_text().replace("size_gb: 100", "size_gb: 90"))
    with pytest.raises(Refused, match="not every manifest can be edited; nothing was written"):
        propose(found, root, tmp_path / "pull")
    assert not (tmp_path / "pull").exists()
    file.write_text(file.read_text().replace("size_gb: 90", "size_gb: 100"))
    outside = [replace(each, proposed=_at(each, str(file))) for each in found]
    with pytest.raises(Refused, match=r"manifests/a.yaml is not in the project; nothing was written"):
        propose(outside, tmp_path / "project/pull", tmp_path / "pull")


def _at(each: Outlook, file: str) -> Any:
    assert each.proposed is not None
    return replace(each.proposed, resource=replace(each.proposed.resource, file=file))

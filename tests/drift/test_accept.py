"""`drift --accept`: what is there is written into the manifests, exactly, or nothing is."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.cli.signals import until_interrupted
from reconciler.core.diagnostics import error
from reconciler.core.errors import ReconcilerError, Refused
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Lifecycle, StateRecord
from reconciler.drift import accept as accepting
from reconciler.drift.accept import accept
from reconciler.drift.acceptance import Acceptance
from reconciler.drift.find import Drift, Drifted
from reconciler.manifests.load import load
from reconciler.manifests.writing import replace as replacing
from reconciler.manifests.writing import rewrite as rewriting
from reconciler.planning.declared import Desired
from reconciler.services.machines.wire.extension import Extension
from reconciler.services.machines.wire.volume import Volume
from tests.drift.stage import DATA, VOLUME, Stage
from tests.reports.plans import EMPTY

HEAD = "apiVersion: reconciler/v1\nkind: Volume\nmetadata: {name: data, app: shop}\n"
BLOCK = HEAD + "spec:\n  region: 'ams'   # where\n\n  # how big\n  size_gb:   10\n  snapshot_retention: 14"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def changed_lines(before: bytes, after: bytes) -> list[bytes]:
    """The lines that differ, as they are now; no line came or went."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    assert len(old) == len(new)
    return [line for line, was in zip(new, old, strict=True) if line != was]


def drifted(stage: Stage, name: str = "manifests/main.yaml") -> Path:
    """Write the manifest of a volume that somebody extended since, and return the file."""
    stage.moved = {str(DATA): {"size_gb": 20}}
    return stage.write(VOLUME, name)


def two_drifted(stage: Stage) -> tuple[Path, Path]:
    """The same for the volumes `data` and `logs` in files of their own."""
    stage.moved = {"Volume/shop/data": {"size_gb": 20}, "Volume/shop/logs": {"size_gb": 20}}
    second = stage.write(VOLUME.replace("name: data", "name: logs"), "manifests/b.yaml")
    return stage.write(VOLUME, "manifests/a.yaml"), second


def quiet(stage: Stage) -> bool:
    """Whether neither drift nor plan has anything to say, and apply nothing to send."""
    plan = stage.plan()
    return not stage.drift().plan.changes and not plan.changes and not plan.steps


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (VOLUME.encode(), [b"spec: {region: ams, size_gb: 20, snapshot_retention: 14}\n"]),
        (BLOCK.encode(), [b"  size_gb:   20\n"]),
        (BLOCK.replace("\n", "\r\n").encode(), [b"  size_gb:   20\r\n"]),
        (b"\xef\xbb\xbf" + BLOCK.encode(), [b"  size_gb:   20\n"]),
        (HEAD.encode() + b"spec: {size_gb: 10}", [b"spec: {size_gb: 20}"]),
        (
            HEAD.encode() + b"spec: {size_gb: &ten 10} # \xf0\x9f\x98\x80",
            [b"spec: {size_gb: &ten 20} # \xf0\x9f\x98\x80"],
        ),
        (
            "# 😀\napiVersion: reconciler/v1\nkind: Volume\n"
            'metadata: {name: data, app: shop, labels: {"😀😀": "😀"}}\n'
            'spec: {compute: {kernel_args: ["😀"]}, size_gb: 10}\n'.encode(),
            ['spec: {compute: {kernel_args: ["😀"]}, size_gb: 20}\n'.encode()],
        ),
        (
            HEAD.encode() + b"spec:\n  <<: {region: ams, size_gb: 10}\n  snapshot_retention: 14\n",
            [b"  <<: {region: ams, size_gb: 20}\n"],
        ),
        (
            b"# one\n"
            + VOLUME.replace("name: data", "name: other").encode()
            + b"--- # two\n"
            + BLOCK.encode(),
            [b"  size_gb:   20\n"],
        ),
    ],
    ids=["flow", "block", "crlf", "bom", "no-newline", "anchor", "emoji", "merge", "second-document"],
)
def test_one_value_is_one_line_and_every_other_byte_stays(
    stage: Stage, text: bytes, lines: list[bytes]
) -> None:
    file = stage.write(text)
    stage.moved = {str(DATA): {"size_gb": 20}}
    assert not quiet(stage)
    done = stage.accept()
    assert [(each.before, each.after) for each in done.accepted] == [(10, 20)]
    assert (done.refused, done.remaining) == ((), ())
    assert changed_lines(text, file.read_bytes()) == lines
    span = done.accepted[0].span
    assert span is not None
    line = file.read_bytes().decode("utf-8-sig").splitlines()[span.line - 1]
    assert line[span.column - 1 : span.end_column - 1].endswith("20")
    assert quiet(stage)


def test_several_values_of_several_objects_and_files(stage: Stage) -> None:
    other = VOLUME.replace("name: data", "name: logs")
    cluster = (
        "apiVersion: reconciler/v1\nkind: PostgresCluster\nmetadata: {name: orders}\n"
        'spec:\n  org_slug: personal\n  plan: starter # small\n  region: ams\n  pg_major_version: "16"\n'
    )
    both = stage.write(VOLUME + "---\n" + other)
    database = stage.write(cluster, "manifests/db.yaml")
    stage.moved = {
        "Volume/shop/data": {"size_gb": 20, "snapshot_retention": 5},
        "Volume/shop/logs": {"region": "no", "size_gb": 11},
        "PostgresCluster/orders": {"plan": "LAUNCH", "pg_major_version": "17"},
    }
    done = stage.accept()
    assert not done.refused
    assert changed_lines((VOLUME + "---\n" + other).encode(), both.read_bytes()) == [
        b"spec: {region: ams, size_gb: 20, snapshot_retention: 5}\n",
        b'spec: {region: "no", size_gb: 11, snapshot_retention: 14}\n',
    ]
    assert changed_lines(cluster.encode(), database.read_bytes()) == [
        b"  plan: LAUNCH # small\n",
        b'  pg_major_version: "17"\n',
    ]
    assert quiet(stage)


def test_only_the_addresses_named_are_accepted_and_the_rest_remains(stage: Stage) -> None:
    stage.write(VOLUME + "---\n" + VOLUME.replace("name: data", "name: logs"))
    stage.moved = {"Volume/shop/data": {"size_gb": 20}, "Volume/shop/logs": {"size_gb": 20}}
    done = stage.accept("Volume/shop/logs")
    assert [str(each.address) for each in done.accepted] == ["Volume/shop/logs"]
    assert [str(each.address) for each in done.remaining] == ["Volume/shop/data"]
    again = stage.accept("Volume/shop/logs")
    assert (again.accepted, again.refused, [str(each) for each in again.quiet]) == (
        [],
        (),
        ["Volume/shop/logs"],
    )


def test_a_machine_that_somebody_suspended(stage: Stage) -> None:
    file = stage.write(
        "apiVersion: reconciler/v1\nkind: Machine\nmetadata: {name: worker, app: shop}\n"
        "spec: {id: m_1, power: running}\n"
    )
    stage.capabilities = frozenset({"machine.get"})
    stage.moved = {"Machine/shop/worker": {"state": "suspended"}}
    assert not stage.accept().refused
    assert b"power: suspended}" in file.read_bytes()
    assert quiet(stage)


# --- what is not written ---

POLICY = (
    "---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: all}\n"
    "spec: {selector: {}, snapshot_retention: 14}\n"
)
MERGED_ALIAS = HEAD + "spec: {snapshot_retention: &n 10, <<: [{size_gb: *n}], region: ams}\n"
SHARED_NUMBER = HEAD + "spec: {snapshot_retention: &n 10, size_gb: *n}\n"
SHORT = HEAD + "spec: {snapshot_retention: 14}\n"


@pytest.mark.parametrize(
    ("text", "moved", "line", "column", "words"),
    [
        (HEAD + "spec: {region: ams}\n" + POLICY, {"snapshot_retention": 5}, 9, 42, "its own manifest"),
        (HEAD + "spec: {size_gb: 10, count: 1}\n", None, 3, 18, "does not exist"),
        (HEAD + "spec: {size_gb: {min: 10, max: 15}}\n", {"size_gb": 20}, 4, 17, '{"min": 10, "max": 15}'),
        (HEAD + "spec: {size_gb: 10, count: 2}\n", {"size_gb": 20}, 4, 28, "2 objects of `spec.count`"),
        (SHARED_NUMBER, {"size_gb": 20}, 4, 28, "comes from the anchor `&n`"),
        (HEAD + "spec: {size_gb: &n 10, snapshot_retention: *n}\n", {"size_gb": 20}, 4, 44, "time, as `*n`"),
        (MERGED_ALIAS, {"size_gb": 20}, 4, 28, "comes from the anchor `&n`"),
        (HEAD + "spec:\n  region: >-\n    ams\n", {"region": "fra"}, 5, 11, "several lines"),
        (SHORT, {"snapshot_retention": 0}, 4, 28, "not a valid `snapshot_retention`"),
    ],
    ids=["policy", "gone", "range", "count", "alias", "anchor", "merge", "block-text", "out-of-range"],
)
def test_a_value_that_is_not_this_manifests_own_is_refused_with_the_place_to_edit(
    stage: Stage, text: str, moved: dict[str, Any] | None, line: int, column: int, words: str
) -> None:
    file = stage.write(text)
    stage.moved = {str(DATA): moved}
    refusal = only_refusal(stage.accept())
    assert words in refusal.message
    assert refusal.span.place == f"manifests/main.yaml:{line}:{column}"
    assert refusal.help
    assert file.read_bytes() == text.encode()


def only_refusal(done: Acceptance) -> Any:
    assert not done.accepted
    (refusal,) = done.refused
    assert refusal.why.code == "cannot-accept"
    return refusal.why


def test_a_state_that_no_manifest_can_ask_for_is_refused(stage: Stage) -> None:
    stage.write(
        "apiVersion: reconciler/v1\nkind: Machine\nmetadata: {name: worker, app: shop}\n"
        "spec: {id: m_1, power: started}\n"
    )
    stage.capabilities = frozenset({"machine.get"})
    stage.moved = {"Machine/shop/worker": {"state": "failed"}}
    assert 'the text "failed" is not a valid `power`' in only_refusal(stage.accept()).message


def test_a_secret_is_never_accepted_and_its_line_never_shown(tmp_path: Path) -> None:
    address = Address("Secret", "API_KEY", "shop")
    file = tmp_path / "secret.yaml"
    file.write_text(
        "apiVersion: reconciler/v1\nkind: Secret\nmetadata: {name: API_KEY, app: shop}\n"
        "spec: {value_from: {env: API_KEY}}\n"
    )
    done = _accept_one(tmp_path, address, FieldChange("digest", "d1", "d2", Effect.WRITE_ONLY), None)
    refusal = only_refusal(done)
    assert refusal.hidden
    assert "d2" not in refusal.message + refusal.help


def test_what_the_next_apply_would_send_all_the_same_is_refused(tmp_path: Path) -> None:
    """Of an extension, the record is what was sent: another name in the manifest is a PATCH."""
    address = Address("Extension", "db", "shop")
    (tmp_path / "db.yaml").write_text(
        "apiVersion: reconciler/v1\nkind: ExtensionProvider\nmetadata: {name: acme}\n"
        "spec: {base_url: 'https://acme.example', signing_secret_from: {env: A}}\n---\n"
        "apiVersion: reconciler/v1\nkind: Extension\nmetadata: {name: db, app: shop}\n"
        "spec: {provider: acme, name: ours, organization_id: o, organization_name: O, user_id: u,\n"
        "  user_email: e, user_role: admin}\n"
    )
    live = Extension.model_validate({"id": "obj_1", "name": "theirs", "status": "ready"})
    done = _accept_one(tmp_path, address, FieldChange("name", "ours", "theirs", Effect.IN_PLACE), live)
    assert "the next apply would still send a change" in only_refusal(done).message


def _accept_one(
    root: Path, address: Address, field: FieldChange, live: Any, file: Path | None = None
) -> Acceptance:
    """Accept one drifted field, as if drift had found it."""
    loaded = load([str(file or root)], root=root)
    resource = next(each for each in loaded.resources if each.address == address)
    applied = {**resource.spec.model_dump(exclude_unset=True), "ours": "id"}
    record = StateRecord(address, "obj_1", "shop", applied, Lifecycle(), EMPTY.context.at)
    change = Change(address, Action.UPDATE, (field,), id="obj_1")
    drift = Drift(replace(EMPTY, changes=(change,)), {address: Drifted(resource, record, live)})
    return accept(drift, Desired(loaded.resources), root, [])


def test_one_value_that_cannot_be_written_keeps_all_files_as_they_are(stage: Stage) -> None:
    first = stage.write(VOLUME, "manifests/a.yaml")
    stage.write(
        VOLUME.replace("name: data", "name: logs").replace("14}", "14, count: 2}"), "manifests/b.yaml"
    )
    stage.moved = {"Volume/shop/data": {"size_gb": 20}, "Volume/shop/logs": {"size_gb": 20}}
    done = stage.accept()
    assert {str(each.address) for each in done.refused} == {"Volume/shop/logs"}
    assert (done.accepted, [str(each) for each in done.others]) == ((), ["Volume/shop/data"])
    assert first.read_text() == VOLUME
    assert not stage.accept("Volume/shop/data").refused
    assert first.read_text() != VOLUME


def test_an_address_that_no_manifest_declares_is_refused_with_the_nearest(stage: Stage) -> None:
    file = drifted(stage)
    with pytest.raises(ReconcilerError, match="`Volume/shop/dta` is not recorded") as refused:
        stage.accept("Volume/shop/data", "Volume/shop/dta")
    assert refused.value.help == "did you mean `Volume/shop/data`?"
    assert file.read_text() == VOLUME


def test_nothing_is_accepted_while_not_all_can_be_seen(stage: Stage) -> None:
    file = drifted(stage)
    found = stage.drift()
    broken = replace(found.plan, diagnostics=(error("unreadable", "cannot read x"),))
    with pytest.raises(Refused, match="not every object could be read"):
        accept(replace(found, plan=broken), stage.desired(), stage.root, [])
    assert file.read_text() == VOLUME


# --- files ---


def test_the_mode_stays_and_nothing_is_left_beside_the_file(stage: Stage) -> None:
    file = drifted(stage)
    file.chmod(0o640)
    assert stage.accept().accepted
    assert file.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in file.parent.iterdir()] == ["main.yaml"]


def test_a_symbolic_link_stays_and_its_target_changes(stage: Stage) -> None:
    target = drifted(stage, "manifests/real/data.yaml")
    link = stage.root / "manifests/a.yaml"
    link.symlink_to("real/data.yaml")
    assert stage.accept().accepted
    assert link.is_symlink()
    assert b"size_gb: 20" in target.read_bytes()


def test_a_file_with_two_names_is_refused(stage: Stage) -> None:
    file = drifted(stage)
    (stage.root / "second.yaml").hardlink_to(file)
    assert "2 hard links" in only_refusal(stage.accept()).message
    assert file.read_text() == VOLUME


def test_a_read_only_file_is_refused(stage: Stage) -> None:
    file = drifted(stage)
    file.chmod(0o444)
    assert "is read-only" in only_refusal(stage.accept()).message


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(VOLUME,))
    writer.start()
    live = Volume.model_validate({"id": "obj_1", "size_gb": 20})
    done = _accept_one(tmp_path, DATA, FieldChange("size_gb", 10, 20, Effect.GROW), live, file=pipe)
    writer.join()
    assert "is not a regular file" in only_refusal(done).message


@pytest.mark.parametrize(
    "other",
    [
        "# new\n" + VOLUME,
        VOLUME.replace("size_gb: 10", "size_gb: 12"),
        VOLUME.replace("data", "date"),
        "a: [",
        "",
    ],
)
def test_a_file_that_changed_since_it_was_read_is_refused(stage: Stage, other: str) -> None:
    file = drifted(stage)
    found, desired = stage.drift(), stage.desired()
    file.write_text(other)
    assert "changed while" in only_refusal(accept(found, desired, stage.root, [])).message
    assert file.read_text() == other


def test_a_file_that_changes_at_the_last_moment_is_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two_drifted(stage)
    honest = replacing.replace_files

    def late(replacements: Any) -> None:
        second.write_text("somebody saved\n")
        honest(replacements)

    monkeypatch.setattr(accepting, "replace_files", late)
    with pytest.raises(ReconcilerError, match="changed meanwhile"):
        stage.accept()
    assert first.read_text() == VOLUME
    assert second.read_text() == "somebody saved\n"
    assert sorted(each.name for each in first.parent.iterdir()) == ["a.yaml", "b.yaml"]


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_second_file_that_cannot_be_written_takes_the_first_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    first, second = two_drifted(stage)
    synced: list[Path] = []

    def failing(folder: Path) -> None:
        synced.append(folder)
        if len(synced) == 2:
            raise failure

    monkeypatch.setattr(replacing, "_sync_folder", failing)
    with pytest.raises(ReconcilerError if isinstance(failure, OSError) else KeyboardInterrupt):
        stage.accept()
    assert first.read_text() == VOLUME
    assert second.read_text() == VOLUME.replace("name: data", "name: logs")
    assert sorted(each.name for each in first.parent.iterdir()) == ["a.yaml", "b.yaml"]


def test_a_signal_in_the_midst_of_it_leaves_no_half_of_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another comes at the same time: both are sent when a service is stopped."""
    texts = {name: VOLUME.replace("name: data", f"name: {name}") for name in ("a", "b", "c")}
    files = {name: stage.write(text, f"manifests/{name}.yaml") for name, text in texts.items()}
    stage.moved = {f"Volume/shop/{name}": {"size_gb": 20} for name in texts}
    synced: list[Path] = []

    def sync(folder: Path) -> None:
        synced.append(folder)
        if len(synced) == 2:
            assert "size_gb: 20" in files["a"].read_text()
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGHUP)

    def work() -> int:
        stage.accept()
        return 0

    monkeypatch.setattr(replacing, "_sync_folder", sync)
    assert until_interrupted(work) == 143
    assert all("size_gb: 20" in file.read_text() for file in files.values())
    assert sorted(each.name for each in files["a"].parent.iterdir()) == ["a.yaml", "b.yaml", "c.yaml"]


def test_an_edit_that_would_change_its_neighbours_is_not_written(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = drifted(stage)
    monkeypatch.setattr(
        rewriting, "splice", lambda text, changes: text.replace("10, snapshot_retention: 14", "20")
    )
    assert "without changing something else" in only_refusal(stage.accept()).message
    assert file.read_text() == VOLUME


def test_an_edit_that_was_never_applied_is_replaced_with_a_remark(stage: Stage) -> None:
    stage.write(VOLUME)
    stage.project()
    file = stage.write(VOLUME.replace("retention: 14", "retention: 30").replace("size_gb: 10", "size_gb: 11"))
    stage.moved = {str(DATA): {"snapshot_retention": 7, "size_gb": 20}}
    done = stage.accept()
    assert "size_gb: 20, snapshot_retention: 7" in file.read_text()
    assert [(each.code, str(each.severity)) for each in done.remarks] == [("unapplied-edit", "info")] * 2
    assert (
        "`snapshot_retention: 30` was written here and never applied (last applied: 14)"
        in done.remarks[1].message
    )
    assert "write 30 here again" in done.remarks[1].help
    assert not stage.drift().plan.changes

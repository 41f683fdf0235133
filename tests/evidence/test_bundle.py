"""A bundle proves what a run did, and any byte of it that is changed is refused and named by its part."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.evidence.archive import ARCHIVE, SUMS, Damaged, _header, _tar, digest, pack, unpack
from reconciler.evidence.bundle import HEAD, PLAN, NotBundled, bundle
from reconciler.evidence.verify import damaged_page, verified_page
from reconciler.state.runs import history_of
from tests.docs.pages import Block, items
from tests.reliability.bundles import CANARY, Made, make, misnamed, refused, verified

PAGE = Path(__file__).parents[2] / "docs/how-to/evidence.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("first"), "data")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("second"), "logs")


def repacked(made: Made, **parts: bytes | None) -> bytes:
    """A forgery whose digests are right."""
    known = {**unpack(made.data), **parts}
    return pack({name: content for name, content in known.items() if content is not None})


def test_a_bundle_proves_the_run_and_who_approved_it(made: Made) -> None:
    found = verified(made.data, head=made.head, signers=made.signers)
    assert found.head == made.head
    assert found.rows.run == made.run
    (run,) = history_of(found.rows.entries).runs
    assert (run.ended(), len(run.calls)) == ("done", 2)
    assert ([each.principal for each in found.approvals], found.allowed) == (["ana@example.com"], True)
    assert found.parts[-1] == PLAN
    assert not verified(made.data).allowed


def test_the_same_run_gives_the_same_bytes_and_no_secret(made: Made) -> None:
    assert bundle(made.contents, made.run, head=made.head, saved=made.saved) == made.data
    assert CANARY.encode() not in made.data
    assert made.contents.key not in made.data
    assert made.contents.key.hex().encode() not in made.data


@pytest.mark.parametrize(("step", "bit"), [(13, 1), (17, 0x20), (29, 0x80)])
def test_a_flipped_byte_is_refused_and_named_by_its_part(made: Made, step: int, bit: int) -> None:
    """A sample of `python -m tests.reliability.bundles`, which flips every byte."""
    assert misnamed(made.data, step, bit) == []


def test_a_bundle_that_was_cut_off_or_goes_on_is_refused(made: Made) -> None:
    for length in (0, 1, 40, 153, 200, 700, len(made.data) // 2, len(made.data) - 512, len(made.data) - 1):
        refused(made.data[:length])
    assert refused(made.data + b"\0" * 512) == ARCHIVE
    assert refused(made.data + b"more") == ARCHIVE


def test_parts_of_another_bundle_are_refused(made: Made, other: Made) -> None:
    """Also with digests that are right."""
    theirs = unpack(other.data)
    shared = [name for name, content in unpack(made.data).items() if theirs.get(name, content) != content]
    assert {HEAD, PLAN, "approvals/01.statement", "approvals/01.signature"} < set(shared)
    for name in shared:
        refused(repacked(made, **{name: theirs[name]}))
    both = {name: theirs[name] for name in shared if name.startswith("approvals/")}
    assert refused(repacked(made, **both)) == "approvals/01.statement"


def test_a_part_that_is_missing_is_refused(made: Made) -> None:
    for name in unpack(made.data):
        if (name != PLAN and not name.startswith("journal/")) or name.endswith("1.row"):
            refused(repacked(made, **{name: None}))
    assert PLAN not in verified(repacked(made, **{PLAN: None})).parts


def test_a_row_that_says_something_else_breaks_the_chain(made: Made) -> None:
    rows = sorted(name for name in unpack(made.data) if name.startswith("journal/"))
    for name, after in zip(rows, [*rows[1:], HEAD], strict=True):
        changed = unpack(made.data)[name].replace(b'"data"', b'"atad"').replace(b"done", b"dome")
        if changed != unpack(made.data)[name]:
            assert refused(repacked(made, **{name: changed})) in (name, after)


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "journal/../../x", "plan.json/x", "notes", ""])
def test_a_name_that_no_bundle_has_is_refused(made: Made, name: str) -> None:
    parts = {**unpack(made.data), name: b"x"}
    sums = "".join(f"{digest(content)}  {each}\n" for each, content in parts.items()).encode()
    archive = _tar({SUMS: sums, **parts})
    line = f"reconcile-bundle-1 {digest(archive)} {digest(sums)}\n".encode()
    assert refused(line + archive) == ARCHIVE


def test_what_claims_to_be_large_is_not_read(made: Made) -> None:
    for size in (1 << 32, 8**11 - 1):
        archive = _header("plan.json", size) + b"x"
        line = f"reconcile-bundle-1 {digest(archive)} {digest(b'')}\n".encode()
        assert refused(line + archive) == ARCHIVE


def test_another_head_is_refused(made: Made, other: Made) -> None:
    assert refused(made.data, head=other.head) == HEAD
    assert verified(made.data, head=made.head.upper()).head == made.head


def test_signers_who_may_not_are_refused(made: Made, other: Made) -> None:
    late = made.signers.replace(b"ana@example.com ", b'ana@example.com valid-after="20300101" ')
    for signers in (other.signers, made.signers.replace(b"ana@", b"bob@"), late, b""):
        assert refused(made.data, signers=signers) == "approvals/01.signature"


@pytest.mark.parametrize(
    "said",
    [
        {"plan": "0" * 64},
        {"environment": "prod"},
        {"lineage": "another"},
        {"expires": "2025-12-31T23:00:00Z"},
        {"expires": "soon"},
    ],
)
def test_an_approval_of_something_else_is_refused(tmp_path: Path, said: Mapping[str, str]) -> None:
    data = make(tmp_path, "data", **said).data
    assert refused(data) == "approvals/01.statement"
    assert told_by_shell(tmp_path, data) == "refused: approvals/01.statement\n"


# --- without this program ---


def script(folder: Path) -> Path:
    (text,) = (
        item.text for item in items(PAGE) if isinstance(item, Block) and item.file == "verify-bundle.sh"
    )
    (folder / "verify.sh").write_text(text)
    return folder / "verify.sh"


def by_shell(folder: Path, data: bytes, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "a.bundle").write_bytes(data)
    command = ["sh", str(script(folder)), str(folder / "a.bundle"), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def told_by_shell(folder: Path, data: bytes, *more: str) -> str:
    """What it says when it refuses."""
    done = by_shell(folder, data, *more)
    assert (done.returncode, done.stderr) == (1, "")
    return done.stdout


def test_the_script_has_thirty_lines(tmp_path: Path) -> None:
    assert len(script(tmp_path).read_text().splitlines()) <= 30


def test_the_script_names_the_part_that_is_another_one(made: Made, other: Made, tmp_path: Path) -> None:
    theirs, rows = unpack(other.data), sorted(name for name in unpack(made.data) if "journal/" in name)
    beginning, *_, end = rows

    def told(**parts: bytes | None) -> str:
        return told_by_shell(tmp_path, repacked(made, **parts)).removeprefix("refused: ").rstrip()

    assert told(**{rows[2]: theirs[rows[2]]}) == rows[2]
    assert told(**{rows[2]: None}) == rows[3]
    assert told(**{beginning: None}) == rows[1]
    assert told(**{end: None}) == rows[-2]
    assert told(**dict.fromkeys(rows)) == "journal/*.row"
    assert told(**{PLAN: theirs[PLAN]}) == PLAN
    assert told(**{"rehearsal.json": b"{}"}) == "rehearsal.json"
    assert told(**{"approvals/01.signature": theirs["approvals/01.signature"]}) == "approvals/01.statement"
    assert told(**{"approvals/02.statement": theirs["approvals/01.statement"]}) == "approvals/02.statement"
    assert told_by_shell(tmp_path, made.data, other.head) == "refused: head.json: another head\n"
    spoilt = made.data.replace(b'{"plan":"id1"', b'{"plan":"id2"', 1)
    line = f"reconcile-bundle-1 {digest(_archive(spoilt))} ".encode() + made.data[84:149]
    assert told_by_shell(tmp_path, line + _archive(spoilt)) == f"refused: SHA256SUMS {beginning}: FAILED\n"


def _archive(data: bytes) -> bytes:
    return data.partition(b"\n")[2]


def test_the_script_accepts_what_verify_accepts(made: Made, tmp_path: Path) -> None:
    (tmp_path / "signers").write_bytes(made.signers)
    for more in ((), (made.head,), (made.head, str(tmp_path / "signers"))):
        done = by_shell(tmp_path, made.data, *more)
        assert (done.returncode, done.stdout, done.stderr) == (0, "verified\n", "")


def test_the_script_refuses_what_verify_refuses(made: Made, other: Made, tmp_path: Path) -> None:
    (tmp_path / "signers").write_bytes(other.signers)
    theirs = unpack(other.data)
    changed = [
        bytes(byte ^ (at == place) for at, byte in enumerate(made.data))
        for place in range(7, len(made.data), len(made.data) // 12)
    ]
    forged = [repacked(made, **{name: theirs[name]}) for name in (HEAD, PLAN, "approvals/01.signature")]
    for data in (*changed, *forged, made.data[:-700], b""):
        refused(data)
        assert by_shell(tmp_path, data).returncode == 1
    assert by_shell(tmp_path, made.data, other.head).returncode == 1
    assert by_shell(tmp_path, made.data, made.head, str(tmp_path / "signers")).returncode == 1


# --- what is refused before it is made ---


def test_another_plan_another_head_and_encrypted_rows_are_refused(made: Made, other: Made) -> None:
    with pytest.raises(NotBundled, match="is not the plan that it carried out"):
        bundle(made.contents, made.run, saved=other.saved)
    with pytest.raises(NotBundled, match="has not had the head"):
        bundle(made.contents, made.run, head=other.head)
    with pytest.raises(NotBundled, match="its state is encrypted"):
        bundle(made.contents, made.run, encrypted=True)


def test_the_page_says_what_is_proved_and_what_is_not(made: Made) -> None:
    page = verified_page("a.bundle", verified(made.data), has_head=False)
    assert "approved by: ana@example.com (any key: give --allowed-signers): it is needed" in page.text
    assert "(compare it with the one that apply printed)" in page.text
    found = page.document["verify"]
    assert (found["verified"], found["run"], found["outcome"]) == (True, made.run, "done")
    assert (found["head"], found["head_checked"]) == (made.head, False)
    assert found["approvals"] == [{"principal": "ana@example.com", "allowed": None, "reason": "it is needed"}]
    refused_page = damaged_page("a.bundle", Damaged("plan.json", "its digest is another one"))
    assert refused_page.document["verify"]["part"] == "plan.json"
    assert refused_page.text == "a.bundle is refused: plan.json: its digest is another one\n"

"""Fields of `lifecycle` and `metadata` count for some kinds only, and are refused elsewhere."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.core.diagnostics import has_errors
from reconciler.manifests.authoring.reference import kind_schema
from reconciler.manifests.authoring.skeleton import skeleton
from reconciler.manifests.load import load
from reconciler.policies import find_manifest_kinds
from tests.inprocess import Command, secret

KINDS = find_manifest_kinds()
POLICIES = ("ExtensionProvider", "Moved", "RetentionPolicy")
MEANINGLESS = [
    *[(kind, "lifecycle", "restart: auto") for kind in ("Secret", "PostgresCluster", "Machine", "Extension")],
    *[(kind, "lifecycle", "snapshot_before: [delete]") for kind in ("Secret", "PostgresCluster", "Machine")],
    ("Secret", "lifecycle", "timeout_s: 60"),
    *[(kind, "lifecycle", "deletion: delete") for kind in POLICIES],
    *[(kind, "metadata", "id: obj_1") for kind in ("Secret", "Machine", *POLICIES)],
]


def manifest(kind: str, metadata: str = "", lifecycle: str = "") -> str:
    app = ", app: shop" if KINDS[kind].in_app else ""
    return (
        (
            f"apiVersion: reconciler/v1\nkind: {kind}\nmetadata: {{name: one{app}{metadata}}}\n"
            f"spec: {dict(KINDS[kind].example)!r}\n{lifecycle}"
        )
        .replace("True", "true")
        .replace("None", "null")
    )


@pytest.mark.parametrize(("kind", "block", "field"), MEANINGLESS)
def test_a_field_that_means_nothing_is_refused_at_its_place(
    tmp_path: Path, kind: str, block: str, field: str
) -> None:
    if block == "metadata":
        text = manifest(kind, metadata=f", {field}")
    else:
        text = manifest(kind, lifecycle=f"lifecycle: {{{field}}}\n")
    (tmp_path / "a.yaml").write_text(text)
    diagnostics = load([str(tmp_path / "a.yaml")], root=tmp_path).diagnostics
    told = [each for each in diagnostics if each.code == "unknown-field"]
    (problem,) = told
    assert problem.span is not None
    name = "lifecycle" if block == "lifecycle" and kind in POLICIES else field.partition(":")[0]
    line = text.splitlines()[problem.span.line - 1]
    assert line[problem.span.column - 1 :].startswith(name)
    known = kind_schema(KINDS[kind])
    shown: dict[str, Any] = next(
        (part for title, part in known["$defs"].items() if title == f"{kind}Lifecycle"), {}
    )
    assert name not in shown.get("properties", {})
    begin = skeleton(KINDS[kind], name="one", app="shop").partition("spec:")[0]
    assert f"{field.partition(':')[0]}:" not in begin


def test_a_field_that_counts_is_taken(tmp_path: Path) -> None:
    block = "lifecycle: {deletion: delete, snapshot_before: [extend], timeout_s: 5, restart: auto}\n"
    (tmp_path / "a.yaml").write_text(manifest("Volume", ", id: vol_1", block))
    loaded = load([str(tmp_path / "a.yaml")], root=tmp_path)
    assert not has_errors(loaded.diagnostics)
    (volume,) = loaded.resources
    kept = volume.lifecycle
    assert (kept.deletion, kept.snapshot_before, kept.timeout_s, kept.restart) == (
        "delete",
        ("extend",),
        5,
        "auto",
    )
    assert volume.adopt_id == "vol_1"


def test_validate_looks_for_the_files_of_secrets(reconcile: Command) -> None:
    reconcile.write("reconcile.yaml", "{}")
    reconcile.write("manifests/there.txt", "x")
    reconcile.write(
        "manifests/a.yaml",
        "".join(
            secret(name, source)
            for name, source in {
                "A": "file: there.txt",
                "B": "file: gone.txt",
                "C": "age: gone.age",
                "D": "sops: {file: gone.yaml, key: a}",
                "E": "env: GONE",
            }.items()
        )
        + "---\napiVersion: reconciler/v1\nkind: ExtensionProvider\nmetadata: {name: db}\n"
        "spec: {base_url: https://db.example.com, signing_secret_from: {file: gone.key}}\n",
    )
    told = reconcile("validate").err
    assert [line.split("`")[3] for line in told.splitlines() if "source-missing" in line] == [
        "manifests/gone.txt",
        "manifests/gone.age",
        "manifests/gone.yaml",
        "manifests/gone.key",
    ]

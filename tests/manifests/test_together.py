"""Every problem of a document is reported at once, and no problem twice."""

import pytest

from tests.manifests.conftest import LoadFiles, codes, volume

HEAD = "apiVersion: reconciler/v1\n"


def cluster(spec: str) -> str:
    return f"---\n{HEAD}kind: PostgresCluster\nmetadata: {{name: orders}}\nspec: {spec}\n"


def restored(origin: str, rest: str = "") -> str:
    return cluster(f"{{restore: {{from: 0123456789abcdef, {origin}}}{rest}}}")


def secret(spec: str) -> str:
    return f"---\n{HEAD}kind: Secret\nmetadata: {{name: PASSWORD, app: shop}}\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (cluster("{plan: zz}"), ["missing-field", "missing-field", "not-allowed"]),
        (cluster("{plan: zz, org_slug: personal, region: ams}"), ["not-allowed"]),
        (cluster("{plan: ~, org_slug: personal, region: 5}"), ["wrong-type", "wrong-type"]),
        (cluster("{restore: 5}"), ["wrong-type"]),
        (restored("pitr_time: soon"), ["invalid-value"]),
        (restored("pitr_time: soon, backup_id: b"), ["invalid-value", "one-of"]),
        (restored("backup_id: b", ", plan: zz"), ["not-allowed", "not-with-restore"]),
        (restored("backup_id: b", ", sise: 1"), ["unknown-field"]),
        (restored("backup: b"), ["unknown-field"]),
        (
            volume("data", "{size_gb: {min: 9, max: 2}, snapshot_id: x, sise: 1}"),
            ["missing-field", "out-of-range", "unknown-field"],
        ),
        (volume("data", "{size_gb: {min: x, max: 2}}"), ["wrong-type"]),
        (volume("data", "{size_gb: {min: 9, mx: 2}}"), ["missing-field", "unknown-field"]),
        (volume("data", "{snapshot_id: x, region: 5, size_gb: 1}"), ["wrong-type"]),
        (volume("data", "{snapshot_id: x, source_volume_id: 5, region: a}"), ["one-of", "wrong-type"]),
        (volume("data", "{from: {volume: 5}}"), ["wrong-type"]),
        (volume("data", "{from: {snapshot: x}}"), ["unknown-field"]),
        (volume("data", "{from: 5, snapshot_id: x, region: a}"), ["one-of", "wrong-type"]),
        (volume("data", "{compute: {kernel_args: [1]}, from: {}}"), ["one-of", "wrong-type"]),
        (volume("data", "{from: {}}", metadata=", lables: {}"), ["one-of", "unknown-field"]),
        (volume("-data", "{from: {}}"), ["bad-name", "one-of"]),
        (secret("{value_from: {env: 5, file: a}}"), ["one-of", "wrong-type"]),
        (secret("{value_from: {env: 5}}"), ["wrong-type"]),
        (secret("{value_from: {emv: A}}"), ["unknown-field"]),
        (secret("{value_from: {template: 5}}"), ["wrong-type"]),
        (secret("{value_from: {template: '${x}'}, name: 5}"), ["bad-template", "wrong-type"]),
        (secret("{value_from: 5}"), ["secret-literal"]),
        (secret("{}"), ["missing-field"]),
        (secret("5"), ["wrong-type"]),
    ],
)
def test_rules_across_fields_are_checked_beside_invalid_fields(
    text: str, expected: list[str], load_files: LoadFiles
) -> None:
    assert sorted(codes(load_files({"a.yaml": text}))) == expected


def test_a_reference_of_an_invalid_document_is_checked(load_files: LoadFiles) -> None:
    loaded = load_files({"a.yaml": volume("data", "{from: {volume: none}, sise: 1}")})
    assert sorted(codes(loaded)) == ["unknown-field", "unknown-reference"]
    assert loaded.resources == []


def test_an_invalid_document_may_be_referred_to_by_another(load_files: LoadFiles) -> None:
    text = volume("one", "{sise: 1, from: {volume: two}}") + volume("two", "{sise: 1, from: {volume: one}}")
    assert codes(load_files({"a.yaml": text})) == ["unknown-field", "unknown-field"]


def test_what_an_invalid_secret_says_stays_hidden(load_files: LoadFiles) -> None:
    loaded = load_files({"a.yaml": secret("{value_from: {template: '${hunter2}'}, value: hunter2}")})
    assert sorted(codes(loaded)) == ["bad-template", "secret-literal"]
    assert all(item.hidden for item in loaded.diagnostics)

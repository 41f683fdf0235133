"""Files that sops has encrypted, among manifests."""

from pathlib import Path

import pytest

from reconciler.manifests.load import Loaded, load
from reconciler.manifests.writing.replace import prepare
from tests.manifests.conftest import codes

SECRET = """\
apiVersion: reconciler/v1
kind: Secret
metadata: {name: PASSWORD, app: shop}
spec: {value_from: {sops: {file: secrets.enc.yaml, key: database.password}}}
"""
# As `sops --encrypt --age …` writes it.
ENCRYPTED = """\
#ENC[AES256_GCM,data:0w5VvQ==,iv:5m2hJQ==,tag:Uo3xZg==,type:comment]
database:
    password: ENC[AES256_GCM,data:Vq0xZbJz,iv:9b0u+A==,tag:J3c5kA==,type:str]
    port: ENC[AES256_GCM,data:n4Q6Zw==,iv:1f/xUg==,tag:Kk2b0w==,type:int]
    on_call_unencrypted: ann
sops:
    age:
        - recipient: age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p
          enc: |
            -----BEGIN AGE ENCRYPTED FILE-----
            YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBub3RoaW5n
            -----END AGE ENCRYPTED FILE-----
    lastmodified: "2026-11-01T10:00:00Z"
    mac: ENC[AES256_GCM,data:Zm9vYmFy,iv:3q2+7w==,tag:AAECAw==,type:str]
    unencrypted_suffix: _unencrypted
    version: 3.9.4
"""
METADATA = ENCRYPTED[ENCRYPTED.index("sops:") :]


def project(root: Path, **files: str) -> Loaded:
    for name, text in {"manifests/password.yaml": SECRET, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    overlay = str(root / "overlays/prod") if (root / "overlays").exists() else None
    return load([str(root / "manifests")], root=root, overlay=overlay)


@pytest.mark.parametrize("text", [ENCRYPTED, f"{ENCRYPTED}---\n{ENCRYPTED}", f"---\n{METADATA}"])
@pytest.mark.parametrize("folder", ["manifests", "overlays/prod"])
def test_a_file_of_sops_beside_the_manifests_is_no_manifest(tmp_path: Path, folder: str, text: str) -> None:
    loaded = project(tmp_path, **{f"{folder}/secrets.enc.yaml": text})
    assert loaded.diagnostics == ()
    assert loaded.complete
    assert [str(each.address) for each in loaded.resources] == ["Secret/shop/PASSWORD"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"apiVersion: ENC[x]\n{METADATA}", "unknown-api-version"),
        (f"kind: ENC[x]\n{METADATA}", "unknown-kind"),
        (f"{SECRET}{METADATA}", "unknown-field"),
        (ENCRYPTED.replace("    mac:", "    mic:"), "missing-field"),
        (ENCRYPTED.replace("    version:", "    versions:"), "missing-field"),
        ("a: b\nsops: {}\n", "missing-field"),
        ("a: b\nsops: ENC[x]\n", "missing-field"),
        (f"{ENCRYPTED}---\na: b\n", "missing-field"),
    ],
)
def test_what_only_looks_like_one_is_told_of(tmp_path: Path, text: str, told: str) -> None:
    assert told in codes(project(tmp_path, **{"manifests/b.yaml": text}))


@pytest.mark.parametrize("target", ["Secret/shop/PASSWORD", "'*/shop/*'"])
def test_an_overlay_that_somebody_encrypted_is_not_passed_over(tmp_path: Path, target: str) -> None:
    patch = f"{target}: {{spec: {{name: 'ENC[x]'}}}}\n{METADATA}"
    assert "bad-overlay-address" in codes(project(tmp_path, **{"overlays/prod/a.yaml": patch}))


def test_nothing_is_written_behind_what_sops_has_encrypted(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(ENCRYPTED)
    assert prepare(tmp_path, "shop", lambda before: f"---\n{SECRET}", set()).path.name == "shop-2.yaml"

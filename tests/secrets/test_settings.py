"""What reconcile.yaml and variables say of secrets, addresses and the platform's limits."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.core.errors import ManifestError, ReconcilerError
from reconciler.core.reporter import Reporter
from reconciler.core.steps import SecretRef
from reconciler.manifests.authoring.reference import json_schema
from reconciler.project.desired import load_desired
from reconciler.project.files import SourceTexts
from reconciler.project.open import rate_limit_of
from reconciler.project.secret import secret_sources
from reconciler.project.settings import ProjectSettings, find_settings


def settings(root: Path, text: str) -> ProjectSettings:
    (root / "reconcile.yaml").write_text(text)
    return find_settings(root, {})


def test_identities_recipients_and_programs_are_named(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "secrets:\n  age_identity_from: {file: ~/key.txt}\n"
        "  age_recipients: [age1abc, ssh-rsa AAA]\n  exec: [vault]\n",
    ).settings.secrets
    assert found.age_identity_from is not None
    assert found.age_identity_from.ref() == SecretRef("file", "~/key.txt")
    assert found.age_recipients == ["age1abc", "ssh-rsa AAA"]
    assert found.exec == ["vault"]


def test_a_provider_takes_its_secrets_from_the_same_sources(tmp_path: Path) -> None:
    sources = "[{age: keys/new.age}, {sops: {file: all.yaml, key: acme}}, {exec: [pass, acme]}, {env: OLD}]"
    found = settings(tmp_path, f"providers: {{acme: {{signing_secret_from: {sources}}}}}\n")
    declared = found.settings.providers["acme"].signing_secret_from
    assert isinstance(declared, list)
    assert [each.ref() for each in declared] == [
        SecretRef("age", "keys/new.age"),
        SecretRef("sops", "all.yaml", ('"acme"',)),
        SecretRef("exec", parts=("pass", "acme")),
        SecretRef("env", "OLD"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "secrets: {age_identity_from: AGE-SECRET-KEY-1HUNTER2}",
        "secrets: {age_identity_from: {}}",
        "secrets: {age_identity_from: {env: A, file: b}}",
        "secrets: {age_identity_from: {age: a.age}}",
        "secrets: {age_recipients: [AGE-SECRET-KEY-1HUNTER2]}",
        "secrets: {exec: vault}",
        "secrets: {exec: [1]}",
        "secrets: {exec: [[sh, -c, x]]}",
        "secrets: {exec: true}",
        "providers: {acme: {signing_secret_from: {env: A, age: HUNTER2}}}",
        "secrets: {age_identity_from: {file: AGE-SECRET-KEY-1HUNTER2}}",
        "secrets: {age_identity_from: {env: ''}}",
        'secrets: {age_identity_from: {file: "a\\0b"}}',
        "providers: {acme: {signing_secret_from: {timeout_s: 5}}}",
    ],
)
def test_what_is_wrong_is_told_at_its_line_and_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(ManifestError) as refused:
        settings(tmp_path, f"\n{text}\n")
    for problem in refused.value.diagnostics:
        assert problem.code == "bad-setting"
        assert problem.hidden
        assert problem.span is not None
        assert problem.span.line == 2
        assert "HUNTER2" not in problem.message + problem.help


@pytest.mark.parametrize(
    "setting",
    [
        "platform.token_from",
        "environments.prod.platform.token_from",
        "secrets.age_identity_from",
        "providers.acme.signing_secret_from",
        "providers.acme.webhook_secret_from",
        "providers.acme.client_secret_from",
    ],
)
@pytest.mark.parametrize("written", ["hunter2hunter2 x", "AGE-SECRET-KEY-1HUNTER2", ""])
def test_a_variable_has_a_name_that_is_one_and_is_not_repeated(
    tmp_path: Path, setting: str, written: str
) -> None:
    text = f'{{env: "{written}"}}'
    for part in reversed(setting.split(".")):
        text = f"{{{part}: {text}}}"
    with pytest.raises(ManifestError) as refused:
        settings(tmp_path, text)
    problems = refused.value.diagnostics
    expected = "expected the name of a variable: letters, digits and `_`, not beginning with a digit"
    told = f"`{setting}.env`: {expected}"
    assert told in [problem.message for problem in problems]
    assert not [each for each in problems if "hunter2" in f"{each.message} {each.help}".lower()]
    assert all(problem.hidden for problem in problems)


OWN = """
platform: {token_from: {env: TOKEN}}
environments:
  prod: {platform: {token_from: {env: PROD_TOKEN}}}
  test: {platform: {token_from: {env: TEST_TOKEN}}}
secrets: {age_identity_from: {env: MYID}, exec: [env]}
providers:
  acme: {signing_secret_from: [{env: NEW}, {env: OLD}], webhook_secret_from: {env: HOOK}}
  other: {signing_secret_from: {env: SIGN}, client_secret_from: {env: CLIENT}, webhook_secret_from: {file: a}}
"""


NAMED = """
apiVersion: reconciler/v1
kind: Secret
metadata: {name: A, app: shop}
spec: {value_from: {env: VALUE}}
---
apiVersion: reconciler/v1
kind: Secret
metadata: {name: B, app: shop}
spec: {value_from: {template: "x${env:PART}"}}
---
apiVersion: reconciler/v1
kind: ExtensionProvider
metadata: {name: acme}
spec:
  base_url: https://acme.example
  signing_secret_from: {env: SIGN}
  webhook_secret_from: {env: HOOK}
"""


@pytest.mark.parametrize("environment", ["", "prod", "dev"])
def test_no_program_gets_a_variable_that_holds_a_secret_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: str
) -> None:
    ours = ["TOKEN", "PROD_TOKEN", "TEST_TOKEN", "MYID", "NEW", "OLD", "HOOK", "SIGN", "CLIENT"]
    own = [*ours, "RECONCILE_TOKEN", "RECONCILE_AGE_IDENTITY"]
    for name in (*own, "VAULT_TOKEN"):
        monkeypatch.setenv(name, "hunter2")
    (tmp_path / "reconcile.yaml").write_text(OWN)
    found = find_settings(tmp_path, os.environ, environment)
    got = (
        secret_sources(found, runs_programs=True)
        .value(SecretRef("exec", parts=("env",)), lambda ref: None)
        .reveal()
    )
    assert [line for line in got.splitlines() if line.endswith("=hunter2")] == ["VAULT_TOKEN=hunter2"]


def test_no_program_gets_a_variable_that_a_manifest_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VALUE", "PART", "SIGN", "HOOK", "VAULT_TOKEN"):
        monkeypatch.setenv(name, "hunter2")
    (tmp_path / "reconcile.yaml").write_text("secrets: {exec: [env]}\n")
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "all.yaml").write_text(NAMED)
    config = find_settings(tmp_path, os.environ)
    desired = load_desired((), config, SourceTexts(config.root), Reporter())
    sources = secret_sources(config, (*desired.resources, *desired.policies), runs_programs=True)
    got = sources.value(SecretRef("exec", parts=("env",)), lambda ref: None).reveal()
    assert [line for line in got.splitlines() if line.endswith("=hunter2")] == ["VAULT_TOKEN=hunter2"]


def test_the_schema_offers_every_source() -> None:
    definitions = json_schema()["$defs"]
    source = definitions["SecretSource"]["properties"]
    assert list(source) == ["env", "file", "age", "sops", "exec", "timeout_s", "template"]
    assert source["exec"]["type"] == "array"
    assert all("description" in field for field in source.values())
    assert list(definitions["ValueSource"]["properties"]) == [name for name in source if name != "template"]
    assert set(definitions["SopsSource"]["properties"]) == {"file", "key"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "platform: {base_url: 'ftp://hunter2'}",
            "`platform.base_url`: expected an address such as https://",
        ),
        ("platform: {base_url: 'https://u:hunter2@h'}", "without a user or password"),
        (
            "environments: {prod: {platform: {base_url: 'https://u:hunter2@h'}}}",
            "expected an address such as",
        ),
        ("overlays: ../hunter2", "`overlays`: expected a folder inside the project"),
        ("secrets: {age_recipients: [hunter2]}", "expected a public recipient: age1"),
        ("environments: {Prod: {}}", "expected a name of at most 63 lower-case letters"),
    ],
)
def test_what_is_allowed_is_said_in_words(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "reconcile.yaml").write_text(text)
    with pytest.raises(ManifestError) as refused:
        find_settings(tmp_path, {})
    (problem,) = refused.value.diagnostics
    assert told in problem.message
    assert "pattern" not in problem.message
    assert "hunter2" not in problem.message


def test_an_address_with_a_password_is_refused_in_the_variable_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(ReconcilerError, match="RECONCILE_BASE_URL: expected an address") as refused:
        find_settings(tmp_path, {"RECONCILE_BASE_URL": "https://u:hunter2@h"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("environments:\n  Prod:\n    state: x\n", (2, 3)),  # the name, not what it stands for
        ("execution:\n  settle_s: .inf\n", (2, 13)),
        ("execution:\n  deadline_s: .inf\n", (2, 15)),
        ("platform:\n  rate_limit: .nan\n", (2, 15)),
    ],
)
def test_a_wrong_setting_is_shown_where_it_stands_from_the_root(
    tmp_path: Path, text: str, place: tuple[int, int]
) -> None:
    (tmp_path / "reconcile.yaml").write_text(text)
    (tmp_path / "below").mkdir()
    with pytest.raises(ManifestError) as refused:
        find_settings(tmp_path / "below", {})
    (problem,) = refused.value.diagnostics
    assert problem.span is not None
    assert (problem.span.file, problem.span.line, problem.span.column) == ("reconcile.yaml", *place)


@pytest.mark.parametrize(
    ("text", "variable", "far", "near"),
    [
        ("", "", 1.0, None),
        ("platform: {rate_limit_loopback: true}\n", "", 1.0, 1.0),
        ("platform: {rate_limit_loopback: true, rate_limit: 5}\n", "", 5.0, 5.0),
        ("platform: {rate_limit_loopback: true, rate_limit: null}\n", "", None, None),
        ("", "1", 1.0, 1.0),
        ("", "0", 1.0, None),
        ("platform: {rate_limit_loopback: true}\n", "0", 1.0, None),
    ],
)
def test_the_limits_hold_on_loopback_only_where_that_is_asked_for(
    tmp_path: Path, text: str, variable: str, far: float | None, near: float | None
) -> None:
    (tmp_path / "reconcile.yaml").write_text(text)
    config = find_settings(tmp_path, {"RECONCILE_RATE_LIMIT_LOOPBACK": variable})
    assert rate_limit_of(config, "https://platform.example") == far
    assert rate_limit_of(config, "http://127.0.0.1:8099") == near


@pytest.mark.parametrize(
    "make", [Path.mkdir, lambda file: file.symlink_to("nowhere")], ids=["folder", "link"]
)
def test_settings_that_are_not_a_file_are_an_error_and_not_passed_over(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "reconcile.yaml")
    (tmp_path / "below").mkdir()
    with pytest.raises(ReconcilerError, match=r"reconcile\.yaml is not a file"):
        find_settings(tmp_path / "below", {})

"""What reconcile.yaml says of notifications, and what it must not say."""

from pathlib import Path

import pytest

from reconciler.core.errors import ManifestError
from reconciler.project.settings import find_settings

GOOD = "secret_from: {env: HOOK_SECRET}"


def problem(root: Path, text: str) -> tuple[str, int, str]:
    """File, line and message of the only one."""
    (root / "reconcile.yaml").write_text(f"# settings\nnotify:\n  - {text}\n")
    with pytest.raises(ManifestError) as refused:
        find_settings(root, {})
    (found,) = refused.value.diagnostics
    assert found.span is not None
    assert found.span.private
    assert "hunter2" not in f"{found.message} {found.help}"
    return found.span.file, found.span.line, f"{found.code}: {found.message}"


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/hunter2",
        "https://user:hunter2@hooks.example.com/",
        "https://hooks.example.com/?key=hunter2",
        "https://hooks.example.com/#hunter2",
        "ftp://hooks.example.com/hunter2",
        "http://127.0.0.1.hunter2.example/",
        "hunter2",
        "",
    ],
)
def test_a_bad_address_is_an_error_at_its_line(tmp_path: Path, url: str) -> None:
    text = f"on: [drift]\n    {GOOD}\n    url: '{url}'"
    file, line, message = problem(tmp_path, text)
    assert (file, line) == ("reconcile.yaml", 5)
    assert message.startswith("bad-setting: `notify.0.url`: expected an address such as https://")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "{on: [drift], url: 'https://h.example', format: teams, secret_from: {env: A}}",
            "`notify.0.format`",
        ),
        ("{on: [drfit], url: 'https://h.example', secret_from: {env: A}}", "`notify.0.on.0`"),
        ("{on: [], url: 'https://h.example', secret_from: {env: A}}", "`notify.0.on`"),
        ("{on: drift, url: 'https://h.example', secret_from: {env: A}}", "`notify.0.on`"),
        ("{url: 'https://h.example', secret_from: {env: A}}", "`notify.0.on`"),
        ("{on: [drift], secret_from: {env: A}}", "exactly one of `url` and `url_from`"),
        (
            "{on: [drift], url: 'https://h.example', url_from: {env: B}, secret_from: {env: A}}",
            "exactly one of `url` and `url_from`",
        ),
        ("{on: [drift], url: 'https://h.example'}", "`secret_from` is missing"),
        ("{on: [drift], format: slack, url: 'https://h.example/hunter2'}", "`slack` takes `url_from` alone"),
        ("{on: [drift], url: 'https://h.example', secret_from: hunter2}", "`notify.0.secret_from`"),
        ("{on: [drift], url: 'https://h.example', secret_from: {env: A}, retries: 3}", "`notify.0.retries`"),
    ],
)
def test_what_is_wrong_is_named_at_its_line(tmp_path: Path, text: str, told: str) -> None:
    file, line, message = problem(tmp_path, text)
    assert (file, line) == ("reconcile.yaml", 3)
    assert told in message


def test_the_address_of_a_heartbeat_is_a_credential_as_that_of_a_message_is(tmp_path: Path) -> None:
    (tmp_path / "reconcile.yaml").write_text("controller: {heartbeat: {url_from: {env: ALIVE}}}\n")
    found = find_settings(tmp_path, {})
    assert "ALIVE" in found.own_variables & found.secret_variables


def test_on_is_a_key_there_and_nowhere_else(tmp_path: Path) -> None:
    """YAML 1.1 takes it for a boolean; nobody quotes it."""
    good = "notify: [{on: [drift], url: 'http://localhost:80', secret_from: {env: HOOK_SECRET}}]\n"
    (tmp_path / "reconcile.yaml").write_text(good)
    found = find_settings(tmp_path, {})
    assert found.settings.notify[0].on == ["drift"]
    assert "HOOK_SECRET" in found.own_variables & found.secret_variables
    (tmp_path / "reconcile.yaml").write_text("on: [drift]\n")
    with pytest.raises(ManifestError, match="cannot be read"):
        find_settings(tmp_path, {})


def test_the_address_of_the_heartbeat_is_a_credential_as_those_of_messages_are(tmp_path: Path) -> None:
    """Who knows it can keep the alarm silent."""
    (tmp_path / "reconcile.yaml").write_text("controller: {heartbeat: {url_from: {env: BEAT_URL}}}\n")
    found = find_settings(tmp_path, {})
    assert "BEAT_URL" in found.own_variables & found.secret_variables

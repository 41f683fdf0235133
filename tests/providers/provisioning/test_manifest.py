"""An ExtensionProvider whose calls could not be sent, or would go astray, is refused at its place."""

from pathlib import Path

import pytest

from reconciler.manifests.load import load

ASTRAY = [
    ('base_url: "https://acme.exa\\0mple"', "base_url"),
    ('base_url: "https://acme.example/\\x1b[2J"', "base_url"),
    ('base_url: "https://acme.example:port"', "base_url"),
    ('base_url: "https://acme.example:70000"', "base_url"),
    ('base_url: "https://:443"', "base_url"),
    ('base_url: "https://[::1"', "base_url"),
    ('base_url: "https://acme.example/v1/../admin"', "base_url"),
    ('base_url: "https://acme.example\\\\admin"', "base_url"),
    ('costs_path: "/co\\0sts"', "costs_path"),
    ('costs_path: "/billing/../extensions"', "costs_path"),
    ('signing_secret_from: {file: "ke\\0y.txt"}', "file"),
]
WELL = [
    "base_url: https://acme.example",
    "base_url: https://acme.example:8443/platform/v1.2/",
    'base_url: "https://[2001:db8::1]:8443"',
    'base_url: "http://[::1]:8090"',
    'costs_path: "/billing/{id}/costs?period=current"',
]


def problems(tmp_path: Path, line: str) -> list[tuple[str, str, int]]:
    """Code, message and line of all that is wrong with a provider that has `line` in its spec, at line 4."""
    given = {
        "base_url": "base_url: https://acme.example",
        "signing_secret_from": "signing_secret_from: {env: A}",
    }
    given.pop(line.partition(":")[0], None)
    lines = ["apiVersion: reconciler/v1", "kind: ExtensionProvider", "metadata: {name: acme}"]
    spec = [line, *given.values()]
    text = "\n".join([*lines, f"spec: {{{', '.join(spec)}}}", ""])
    found = load(["-"], root=tmp_path, stdin=text.encode).diagnostics
    return [(match.code, match.message, match.span.line if match.span else 0) for match in found]


@pytest.mark.parametrize(("line", "named"), ASTRAY)
def test_what_would_go_astray_is_refused(tmp_path: Path, line: str, named: str) -> None:
    ((code, message, at),) = problems(tmp_path, line)
    assert (code, at) == ("invalid-value", 4)
    assert named in message
    assert "\x00" not in message
    assert "\x1b" not in message


@pytest.mark.parametrize("line", WELL)
def test_what_providers_may_well_have_is_taken(tmp_path: Path, line: str) -> None:
    assert problems(tmp_path, line) == []

"""`reconcile provider check` as a process: options, output, exit codes, signals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from junitparser import JUnitXml

from tests.cli.harness import PATIENCE_S, Ran
from tests.cli.warm import run_warm
from tests.providers.check.reference import SIGNING, WEBHOOK, Reference, serving

ENVIRONMENT = {"CHECK_SIGNING": SIGNING.decode(), "CHECK_WEBHOOK": WEBHOOK.decode(), "EMPTY": ""}
SECRETS = ("--signing-secret-from", "env:CHECK_SIGNING", "--webhook-secret-env", "CHECK_WEBHOOK")


def check(*arguments: str, folder: Path | None = None) -> Ran:
    variables = {**os.environ, **ENVIRONMENT}
    return Ran(
        *run_warm(
            ["provider", "check", *arguments], root=folder or Path.cwd(), env=variables, patience_s=PATIENCE_S
        )
    )


def test_a_run_prints_a_line_for_each_check_and_a_summary() -> None:
    with serving(Reference(polls=0)) as app:
        run = check(app.url, *SECRETS, "--costs-path", "/costs", "--only", "calls")
    assert run.code == 0
    lines = run.out.splitlines()
    assert "ok   calls: POST provisions" in lines
    assert lines[-1] == f"{len(lines) - 1} passed, 0 failed"
    assert "checking calls: POST provisions" in run.err
    assert app.resources == {}


def test_a_failure_ends_with_1_and_says_what_is_demanded() -> None:
    with serving(Reference("gives a number in config", polls=0)) as app:
        run = check(app.url, *SECRETS, "--only", "calls: POST*")
    assert run.code == 1
    assert "FAIL calls: POST provisions" in run.out
    assert "required: a signed POST of the documented parameters" in run.out
    assert run.out.endswith("0 passed, 1 failed\n")


def test_a_provider_cannot_write_to_the_terminal() -> None:
    wrong = ("--signing-secret-from", "env:CHECK_WEBHOOK")
    with serving(Reference(words="\x9b2J \u202e")) as app:
        run = check(app.url, *wrong, "--only", "calls: POST*")
    assert run.code == 1
    assert r"\x9b2J \u202e" in run.out


def test_json_is_one_document_on_stdout() -> None:
    with serving(Reference("fails at unknown ids", polls=0)) as app:
        run = check(app.url, *SECRETS, "--only", "calls: * unknown id", "-o", "json")
    assert run.code == 1
    document = json.loads(run.out)
    assert document["format_version"] == "1"
    assert document["summary"] == {"passed": 0, "failed": 3, "not_checked": 0}
    first = document["checks"][0]
    assert (first["group"], first["name"], first["outcome"]) == ("calls", "GET of an unknown id", "failed")
    assert first["came"].startswith("500 ")
    assert document["not_deleted"] == []


def test_junit_is_one_document_on_stdout() -> None:
    with serving(Reference(polls=0)) as app:
        run = check(app.url, *SECRETS, "--only", "calls", "-o", "junit")
    assert run.code == 0
    (suite,) = JUnitXml.fromstring(run.out.encode())
    assert (suite.name, suite.failures, suite.skipped) == ("calls", 0, 1)


def test_when_nothing_could_be_checked_it_does_not_pass() -> None:
    with serving(Reference(polls=0)) as app:
        run = check(app.url, *SECRETS, "--only", "sign-in")
    assert run.code == 1
    assert "0 passed, 0 failed, 9 not checked" in run.out


def test_secrets_and_encoding_come_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "webhook.txt").write_text(WEBHOOK.decode())
    (tmp_path / "reconcile.yaml").write_text(
        "providers:\n"
        "  databases:\n"
        "    signing_secret_from: [{env: CHECK_SIGNING}, {env: EMPTY}]\n"
        "    webhook_secret_from: {file: webhook.txt}\n"
        "    costs_path: /costs\n"
    )
    with serving(Reference(polls=0)) as app:
        options = ("--provider", "databases", "--only", "*costs*")
        run = check(app.url, *options, folder=tmp_path)
        webhook = check(app.url, "--provider", "databases", "--only", "*under the webhook*", folder=tmp_path)
    assert run.out.endswith("3 passed, 0 failed\n")
    assert webhook.out.endswith("5 passed, 0 failed\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("http://staging.example.com", *SECRETS), "would carry the token unencrypted"),
        (("staging.example.com", *SECRETS), "is not the address of a service"),
        (("http://127.0.0.1:1", *SECRETS, "--auth-url", "http://[::1"), "is not the address of a service"),
        (("http://127.0.0.1:1",), "the signing secret is missing"),
        (("http://127.0.0.1:1", "--signing-secret-env", "EMPTY"), "the environment variable `EMPTY` is"),
        (("http://127.0.0.1:1", "--provider", "other"), "has no `providers.other`"),
        (("http://127.0.0.1:1", *SECRETS, "--only", "nothing"), "no check is called `nothing`"),
        (("http://127.0.0.1:1", *SECRETS, "--regions", "ams"), "give two different codes"),
        (("http://127.0.0.1:1", *SECRETS, "--costs-path", "costs"), "it begins with a slash"),
        (("http://127.0.0.1:1", *SECRETS, "--encoding", "latin"), "is not one of"),
    ],
)
def test_a_slip_on_the_command_line_ends_with_64(
    arguments: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    run = check(*arguments, folder=tmp_path)
    assert run.code == 64
    assert reason in run.err


def test_ctrl_c_deletes_what_was_made() -> None:
    with serving(Reference("is never ready")) as app:
        command = [sys.executable, "-m", "reconciler", "provider", "check", app.url, *SECRETS]
        with subprocess.Popen(
            command,
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == "checking calls: POST provisions\n"
            app.provisioned.wait(60)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert "what was made is deleted" in process.stderr.read()
    assert app.resources == {}

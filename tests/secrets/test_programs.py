"""Values from programs: `exec`, and the user's `sops`."""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from reconciler.core.errors import SecretUnavailable
from reconciler.core.steps import OutputRef, SecretRef
from reconciler.secrets.sources import Allowed, Sources
from tests.age_keys import generate
from tests.cli.harness import PATIENCE_S

FAKES = str(Path(__file__).parent)
PATH = f"{FAKES}:{os.environ['PATH']}"
SH = Allowed(programs=("sh",))
NOTHING: Mapping[str, str] = {}


def no_output(ref: OutputRef) -> NoReturn:
    raise KeyError(ref)


def script(text: str, timeout_s: int = PATIENCE_S) -> SecretRef:
    return SecretRef("exec", parts=("sh", "-c", text), timeout_s=timeout_s)


def value_of(root: Path, ref: SecretRef, allowed: Allowed = SH, env: Mapping[str, str] = NOTHING) -> str:
    return Sources(root, {"PATH": PATH, **env}, allowed, runs_programs=True).value(ref, no_output).reveal()


def unavailable(root: Path, ref: SecretRef, allowed: Allowed = SH, env: Mapping[str, str] = NOTHING) -> str:
    with pytest.raises(SecretUnavailable) as missing:
        value_of(root, ref, allowed, env)
    told = f"{missing.value.message}\n{missing.value.help}"
    assert "hunter2" not in told
    cause: BaseException | None = missing.value.__context__
    assert cause is None
    return told


# --- exec ---


def test_stdout_without_its_last_newline_is_the_value(tmp_path: Path) -> None:
    assert value_of(tmp_path, script("echo ' hunter2 '; echo")) == " hunter2 \n"


def test_arguments_reach_the_program_as_they_are(tmp_path: Path) -> None:
    ref = SecretRef("exec", parts=("printf", "%s|%s", "$HOME; echo *", ""))
    assert value_of(tmp_path, ref, Allowed(programs=("printf",))) == "$HOME; echo *|"


def test_a_program_runs_in_the_projects_root_without_input_or_terminal(tmp_path: Path) -> None:
    assert value_of(tmp_path, script("pwd -P; wc -c; (: < /dev/tty) 2> /dev/null || echo none")).split() == [
        str(tmp_path.resolve()),
        "0",
        "none",
    ]


def test_a_program_of_the_project_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pw").write_text("#!/bin/sh\necho hunter2\n")
    ref = SecretRef("exec", parts=("bin/pw",))
    allowed = Allowed(programs=("bin/pw",))
    assert "cannot be started: Permission denied" in unavailable(tmp_path, ref, allowed)
    (tmp_path / "bin" / "pw").chmod(0o755)
    assert value_of(tmp_path, ref, allowed) == "hunter2"


def test_a_program_gets_the_environment_without_our_own_credentials(tmp_path: Path) -> None:
    allowed = Allowed(programs=("env",), withheld=("MY_TOKEN",))
    tokens = ("RECONCILE_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "GITEA_TOKEN")
    own = ("RECONCILE_AGE_IDENTITY", "RECONCILE_STATE")
    env = dict.fromkeys((*tokens, *own, "MY_TOKEN"), "a") | {"VAULT_TOKEN": "d"}
    got = value_of(tmp_path, SecretRef("exec", parts=("env",)), allowed, env).splitlines()
    assert [line for line in got if line.partition("=")[0] in env] == ["VAULT_TOKEN=d"]


def test_sops_keeps_its_own_variables_also_where_one_holds_our_identity(
    tmp_path: Path, sops: dict[str, str]
) -> None:
    withheld = Allowed(programs=("env",), withheld=("SOPS_AGE_KEY",))
    assert value_of(tmp_path, in_file('"1"'), withheld, sops) == "uno"
    assert "SOPS_AGE_KEY" not in value_of(tmp_path, SecretRef("exec", parts=("env",)), withheld, sops)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("echo hunter2; echo hunter2 >&2; exit 3", "the program `sh` ended with exit code 3"),
        ("echo hunter2; kill -9 $$", "was ended by signal 9"),
        ("echo hunter2 >&2", "the output of the program `sh` is empty"),
        ("echo", "is empty"),
        (r"printf 'hunter2\377'", "is not UTF-8 text"),
        ("exec cat /dev/zero", "is larger than 1048576 bytes"),
    ],
)
def test_what_is_wrong_is_told_without_any_output(tmp_path: Path, text: str, told: str) -> None:
    assert told in unavailable(tmp_path, script(text))


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    ref = SecretRef("exec", parts=("no-such-program", "hunter2"))
    allowed = Allowed(programs=("no-such-program",))
    assert "the program `no-such-program` is not on PATH" in unavailable(tmp_path, ref, allowed)


@pytest.mark.parametrize("program", ["sh", "/bin/sh", "./sh", "bash"])
def test_a_program_that_the_settings_do_not_name_is_not_started(tmp_path: Path, program: str) -> None:
    ref = SecretRef("exec", parts=(program, "-c", "touch started; echo hunter2"))
    others = Allowed(programs=tuple({"sh", "/bin/sh", "./sh", "bash"} - {program}))
    told = unavailable(tmp_path, ref, others)
    assert f"does not allow the program `{program}`" in told
    assert f"secrets: {{exec: [{program}]}}" in told
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("ref", [script("touch started"), SecretRef("sops", "a.yaml")], ids=["exec", "sops"])
def test_no_program_is_started_where_that_is_switched_off(tmp_path: Path, ref: SecretRef) -> None:
    assert "RECONCILE_NO_EXEC is set" in unavailable(tmp_path, ref, env={"RECONCILE_NO_EXEC": "1"})
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("ref", [script("touch started"), SecretRef("sops", "a.yaml")], ids=["exec", "sops"])
def test_no_program_is_started_unless_the_verb_says_so(tmp_path: Path, ref: SecretRef) -> None:
    sources = Sources(tmp_path, {"PATH": PATH}, SH)
    assert sources.is_unchecked(ref)
    assert not sources.prepare([ref])
    with pytest.raises(SecretUnavailable) as missing:
        sources.value(ref, no_output)
    assert "is not run here" in missing.value.message
    assert "plan --with-exec" in missing.value.help
    assert not (tmp_path / "started").exists()
    unlisted = SecretRef("exec", parts=("bash", "-c", "touch started"))
    assert not sources.is_unchecked(unlisted)
    with pytest.raises(SecretUnavailable, match="does not allow the program `bash`"):
        sources.value(unlisted, no_output)


def test_zero_and_nothing_switch_nothing_off(tmp_path: Path) -> None:
    for off in ("0", ""):
        assert value_of(tmp_path, script("echo hunter2"), env={"RECONCILE_NO_EXEC": off}) == "hunter2"


def test_a_program_runs_once_also_when_it_fails(tmp_path: Path) -> None:
    sources = Sources(tmp_path, {"PATH": PATH}, SH, runs_programs=True)
    good, bad = script("echo >> good; echo hunter2"), script("echo >> bad; exit 1")
    sources.prepare([good, bad, good])
    for _ in range(3):
        assert sources.value(good, no_output).reveal() == "hunter2"
        with pytest.raises(SecretUnavailable):
            sources.value(bad, no_output)
    assert [(tmp_path / name).read_text() for name in ("good", "bad")] == ["\n", "\n"]


def test_programs_run_side_by_side(tmp_path: Path) -> None:
    """Each waits for the other, through a pipe with two ends."""
    os.mkfifo(tmp_path / "one")
    os.mkfifo(tmp_path / "two")
    first = script("echo a > one; cat two")
    second = script("cat one; echo b > two")
    sources = Sources(tmp_path, {"PATH": PATH}, SH, runs_programs=True)
    assert sources.prepare([first, second])
    assert [sources.value(ref, no_output).reveal() for ref in (first, second)] == ["b", "a"]


# --- nothing stays behind ---


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """A pipe that a grandchild holds open for writing: reading it to its end tells that it is gone."""
    os.mkfifo(tmp_path / "alive")
    return tmp_path / "alive"


ENDLESS = "(trap '' TERM INT HUP; exec > alive; echo $$; while :; do sleep 60; done) & cat < /dev/null; wait"


def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, waiting: Path
) -> None:
    told: list[str] = []
    thread = threading.Thread(target=lambda: told.append(unavailable(tmp_path, script(ENDLESS, 1))))
    thread.start()
    with waiting.open() as pipe:
        pipe.read()  # ends when nobody can write any more
    thread.join()
    assert "did not end within 1 s" in told[0]
    assert "`timeout_s`" in told[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_program_behind(tmp_path: Path, waiting: Path, number: int) -> None:
    code = (
        "import os, sys; from pathlib import Path; from reconciler.secrets.sources import *\n"
        "ref = SecretRef('exec', parts=('sh', '-c', sys.argv[1]))\n"
        "Sources(Path.cwd(), os.environ, Allowed(programs=('sh',)), runs_programs=True).value(ref, str)\n"
    )
    command = [sys.executable, "-c", code, ENDLESS]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        with waiting.open() as pipe:
            pipe.readline()
            process.send_signal(number)
            pipe.read()
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -number
    assert ("KeyboardInterrupt" in err) is (number == signal.SIGINT)


# --- sops ---

CONTENT = {
    "database": {"password": "hunter2", "port": 5432, "a.b": "dotted"},
    "hosts": ["one", "two"],
    "1": "uno",
    "neighbour": "hunter2-neighbour",
}


def fake_file(root: Path) -> dict[str, str]:
    (root / "secrets.enc.json").write_bytes(base64.b64encode(json.dumps(CONTENT).encode()))
    return {"SOPS_AGE_KEY": "any"}


def real_file(root: Path) -> dict[str, str]:
    identity, recipient = generate()
    command = ["sops", "--encrypt", "--age", recipient, "--input-type", "json", "--output-type", "json"]
    ran = subprocess.run([*command, "/dev/stdin"], input=json.dumps(CONTENT).encode(), capture_output=True)
    assert ran.returncode == 0, ran.stderr
    (root / "secrets.enc.json").write_bytes(ran.stdout)
    return {"SOPS_AGE_KEY": identity}


NEEDS_SOPS = pytest.mark.skipif(shutil.which("sops") is None, reason="sops is not installed")


@pytest.fixture(params=["stand-in", pytest.param("real", marks=NEEDS_SOPS)])
def sops(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment in which `secrets.enc.json` can be decrypted."""
    env = fake_file(tmp_path) if request.param == "stand-in" else real_file(tmp_path)
    return {**env, "PATH": PATH if request.param == "stand-in" else os.environ["PATH"]}


def in_file(*components: str) -> SecretRef:
    return SecretRef("sops", "secrets.enc.json", components)


@pytest.mark.parametrize(
    ("components", "value"),
    [
        (('"database"', '"password"'), "hunter2"),
        (('"database"', '"port"'), "5432"),
        (('"database"', '"a.b"'), "dotted"),
        (('"hosts"', "1"), "two"),
        (('"1"',), "uno"),
    ],
)
def test_a_key_gives_its_value(
    tmp_path: Path, sops: dict[str, str], components: tuple[str, ...], value: str
) -> None:
    assert value_of(tmp_path, in_file(*components), env=sops) == value


def test_without_a_key_the_whole_file_is_the_value(tmp_path: Path, sops: dict[str, str]) -> None:
    assert json.loads(value_of(tmp_path, in_file(), env=sops)) == CONTENT


def test_what_sops_says_goes_nowhere(tmp_path: Path, sops: dict[str, str]) -> None:
    told = unavailable(tmp_path, in_file('"nothing"'), env=sops)
    assert "no such key" in told
    assert "exit code 1" in told
    sops["SOPS_AGE_KEY"] = generate()[0]
    if sops["PATH"] == PATH:
        del sops["SOPS_AGE_KEY"]
    assert "no key that can decrypt it is available" in unavailable(tmp_path, in_file(), env=sops)
    (tmp_path / "secrets.enc.json").write_text("PASSWORD hunter2")
    unavailable(tmp_path, in_file(), env=sops)
    (tmp_path / "secrets.enc.json").unlink()
    assert "there is no such file" in unavailable(tmp_path, in_file(), env=sops)


def test_a_missing_sops_is_told_with_advice(tmp_path: Path) -> None:
    told = unavailable(tmp_path, in_file(), env={"PATH": str(tmp_path)})
    assert "`sops` is not on PATH" in told
    assert "install sops" in told

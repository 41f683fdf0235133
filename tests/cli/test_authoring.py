"""`new`, `schema` and `completion`: what helps to write manifests. One real shell among it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from reconciler.cli import main
from reconciler.cli.main import ASKED
from tests.cli.harness import cluster, environment, volume
from tests.state.test_migrations import left_by

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a verb in a project of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("RECONCILE_STATE", "RECONCILE_BASE_URL", "RECONCILE_ENV", ASKED):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "manifests").mkdir()
    (tmp_path / "reconcile.yaml").write_text("manifests: [manifests]\n")

    def verb(*arguments: str) -> tuple[int, str, str]:
        code = main.run([*arguments])
        told = capfd.readouterr()
        return code, told.out, told.err

    return verb


def completed(*words: str) -> list[str]:
    """What may stand in the place of the last of `words`."""
    shell = BashComplete(main.cli, {}, "reconcile", ASKED)
    return [item.value for item in shell.get_completions([*words[:-1]], words[-1])]


# --- new and schema ---


def test_a_new_manifest_is_printed_and_written_and_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    code, text, _ = run("new", "Volume", "--name", "data", "--app", "shop")
    assert code == 0
    assert text.startswith("# yaml-language-server: $schema=../reconcile.schema.json\napiVersion:")
    assert run("new", "Volume", "--name", "data", "--app", "shop", "--out", "manifests/a.yaml")[0] == 0
    assert (tmp_path / "manifests" / "a.yaml").read_text() == text
    assert run("validate")[:2] == (0, "Valid: 1 resource in 1 file.\n")
    code, out, err = run("new", "Secret", "--out", "manifests/a.yaml")
    assert (code, out) == (1, "")
    assert "exists already" in err
    assert (tmp_path / "manifests" / "a.yaml").read_text() == text


def test_a_new_manifest_as_json(run: Run) -> None:
    code, out, _ = run("new", "Secret", "--name", "KEY", "--output", "json")
    document = json.loads(out)
    assert (code, document["format_version"], document["kind"], document["file"]) == (0, "1", "Secret", None)
    assert "value_from:" in document["manifest"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("volume",), "did you mean `Volume`?"),
        (("Postgres",), "did you mean `PostgresCluster`?"),
        (("Deployment",), "kinds are Extension, "),
        (("Volume", "--name", "my data"), "`my data` is not a valid name"),
        (("Secret", "--name", "api-key"), "at most 127 letters, digits and `_`"),
        (("Volume", "--app", "../x"), "--app `../x` is not a valid name"),
        ((), "Missing argument"),
    ],
)
def test_what_cannot_be_new_is_a_mistake_in_usage(run: Run, arguments: tuple[str, ...], told: str) -> None:
    code, out, err = run("new", *arguments)
    assert (code, out) == (64, "")
    assert told in err


def test_a_file_that_cannot_be_written_is_an_error(run: Run) -> None:
    for arguments in (("new", "Volume", "--out", "nowhere/a.yaml"), ("schema", "--out", "nowhere/a.json")):
        code, _, err = run(*arguments)
        assert code == 1
        assert "cannot write nowhere/a" in err


def test_the_schema_replaces_an_earlier_one_and_nothing_else(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "reconcile.schema.json"
    assert run("schema", "--out", file.name)[:2] == (0, "Wrote reconcile.schema.json\n")
    assert json.loads(file.read_text()) == json.loads(run("schema")[1])
    assert run("schema", "--out", file.name)[0] == 0
    assert run("schema", "--out", "reconcile.yaml")[0] == 1
    assert (tmp_path / "reconcile.yaml").read_text() == "manifests: [manifests]\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifests", file.name, "reconcile.yaml"]


# --- did you mean ---


def test_a_misspelt_address_is_told_of_with_the_one_that_is_meant(run: Run, tmp_path: Path) -> None:
    _record(tmp_path, "Volume", "data", "shop")
    for address, meant in (
        ("Volume/shop/dta", "Volume/shop/data"),
        ("Volume/shpo/data", "Volume/shop/data"),
        ("Volum/shop/data", "Volume/shop/data"),
    ):
        for verb in (("state", "show"), ("state", "forget")):
            code, _, err = run(*verb, address)
            assert code == 1
            assert f"`{address}` is not recorded" in err
            assert f"did you mean `{meant}`?" in err
    assert "`reconcile state list` shows what is" in run("state", "show", "Volume/other/logs")[2]
    code, _, err = run("show", "volume/shop/data")
    assert code == 64
    assert "did you mean `Volume/shop/data`?" in err


def _record(
    root: Path, kind: str, name: str, app: str, *, env: str = "", state: str = "sqlite:.reconcile/state.db"
) -> None:
    import anyio

    from reconciler.core.clock import SystemClock
    from reconciler.core.model import Address, Lifecycle, StateRecord
    from reconciler.state import open_store

    async def work() -> None:
        clock = SystemClock()
        store = open_store(state, root=root, clock=clock, environment=env)
        await store.create()
        lease = await store.lease([app], "test")
        record = StateRecord(Address(kind, name, app), "vol_1", app, {}, Lifecycle(), clock.now())
        await store.commit(lease, [], [record])
        await store.release(lease)
        await store.close()

    anyio.run(work)


# --- completion ---


def test_verbs_options_kinds_and_addresses_are_completed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "manifests" / "a.yaml").write_text(
        volume("shop") + volume("shop", "logs") + cluster("orders")
    )
    _record(tmp_path, "Volume", "gone", "shop")
    assert completed("s") == ["show", "state", "secret", "start", "sandbox", "schema"]
    assert completed("state", "f") == ["forget"]
    assert completed("plan", "--det") == ["--detailed-exitcode"]
    assert completed("plan", "--output", "j") == ["json", "junit"]
    assert completed("plan", "--report", "mar") == ["markdown="]
    assert completed("explain", "machine.g") == ["machine.get"]
    assert completed("new", "P") == ["PostgresCluster"]
    recorded_and_declared = ["Volume/shop/data", "Volume/shop/gone", "Volume/shop/logs"]
    for verb in (("show",), ("resolve",), ("state", "show"), ("state", "forget"), ("state", "mv")):
        assert completed(*verb, "V") == recorded_and_declared
    assert completed("apply", "--approve-delete", "Volume/shop/l") == ["Volume/shop/logs"]
    assert completed("show", "") == ["PostgresCluster/orders", *recorded_and_declared]
    assert completed("extension", "sso", "") == []
    assert completed("history", "") == [
        "show",
        "export",
        "replay",
        "PostgresCluster/orders",
        *recorded_and_declared,
    ]
    assert completed("history", "show", "") == []
    assert completed("explain", "vol") == [
        "Volume",
        "volume-attached",
        "volume-failed",
        "volume-filling",
        "volume-shrink",
    ]
    assert completed("explain", "Volume.s") == [
        "Volume.size_gb",
        "Volume.size_gb.max",
        "Volume.size_gb.min",
        "Volume.snapshot_id",
        "Volume.snapshot_retention",
        "Volume.source_volume_id",
        "Volume.spec",
    ]
    assert completed("explain", "volume.spec.n") == ["Volume.spec.name"]


@pytest.mark.parametrize(
    "settings", ["manifests: [manifests\n", "manifests: x\nstate: 5\n", "\0", "- a\n", ""]
)
def test_addresses_are_completed_as_well_as_broken_settings_let_them(
    settings: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "manifests" / "a.yaml").write_text("a: [\n")
    (tmp_path / "manifests" / "b.yaml").write_text(volume("shop") + "---\nkind: [5]\nmetadata: {name: x}\n")
    (tmp_path / "reconcile.yaml").write_text(settings)
    (tmp_path / ".reconcile").mkdir()
    (tmp_path / ".reconcile" / "state.db").write_text("no database")
    assert completed("show", "") == ["Volume/shop/data"]
    assert sorted(path.name for path in (tmp_path / ".reconcile").iterdir()) == ["state.db"]


@pytest.mark.parametrize("found", ["closed", "in use", "of an earlier version", "missing"])
def test_completing_an_address_writes_no_file(
    found: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3
    from contextlib import closing

    (tmp_path / "reconcile.yaml").touch()
    file = tmp_path / ".reconcile" / "state.db"
    if found == "of an earlier version":
        left_by(3, file)
    elif found != "missing":
        _record(tmp_path, "Volume", "data", "shop")
    with closing(sqlite3.connect(file if found == "in use" else ":memory:")) as holder:
        holder.execute("SELECT 1 FROM sqlite_master").fetchall()
        if found == "in use":
            holder.execute("CREATE TABLE other (a)")
            holder.commit()
            assert file.with_name("state.db-wal").stat().st_size
        before = _files(tmp_path)
        monkeypatch.setenv(ASKED, "bash_complete")
        monkeypatch.setenv("COMP_WORDS", "reconcile state show V")
        monkeypatch.setenv("COMP_CWORD", "3")
        code, out, err = run()
        assert _files(tmp_path) == before
    assert (code, "Volume/shop/data" in out, err) == (0, found != "missing", "")


def _files(folder: Path) -> dict[str, bytes | None]:
    """But the index of the WAL, in which each reader marks what it reads."""
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if not path.name.endswith("-shm")
    }


@pytest.mark.parametrize(
    "words", ["reconcile plna x", "reconcile state nothing x", 'reconcile "', "reconcile new Q"]
)
def test_completion_says_nothing_where_nothing_can_be_completed(
    words: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ASKED, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", "2")
    code, out, err = run()
    assert (code, out.strip(), err) == (0, "", "")
    monkeypatch.setenv(ASKED, "tcsh_complete")
    assert run() == (0, "", "")


def test_a_failure_while_addresses_are_looked_for_is_silent(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(config: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("reconciler.cli.addresses._declared", fail)
    monkeypatch.setenv(ASKED, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "reconcile show V")
    monkeypatch.setenv("COMP_CWORD", "2")
    code, out, err = run()
    assert (code, out.strip(), err) == (0, "", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str, run: Run) -> None:
    code, out, _ = run("completion", shell)
    assert code == 0
    assert f"{ASKED}={shell}_complete" in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash_completes_an_address(run: Run, tmp_path: Path) -> None:
    (tmp_path / "manifests" / "a.yaml").write_text(volume("shop"))
    (tmp_path / "complete.sh").write_text(run("completion", "bash")[1])
    command = tmp_path / "bin" / "reconcile"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m reconciler "$@"\n')
    command.chmod(0o755)
    script = (
        "source ./complete.sh; COMP_WORDS=(reconcile show Vol); COMP_CWORD=2; "
        '_reconcile_completion reconcile; printf "%s\n" "${COMPREPLY[@]}"; complete -p reconcile'
    )
    env = environment(None)
    env["PATH"] = f"{command.parent}:{env['PATH']}"
    ran = subprocess.run(
        ["bash", "--norc", "-c", script], env=env, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    first, second = ran.stdout.splitlines()
    assert first == "Volume/shop/data"
    assert "-F _reconcile_completion reconcile" in second
    assert ran.stderr == ""


def test_environments_and_what_they_have_are_completed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reconcile.yaml").write_text("manifests: ['.']\nenvironments: {staging: {}}\n")
    (tmp_path / "manifests" / "a.yaml").write_text(volume("shop"))
    for name in ("prod", "preview", ".git"):
        (tmp_path / "overlays" / name).mkdir(parents=True)
    (tmp_path / "overlays" / "prod" / "own.yaml").write_text(volume("shop", "own"))
    _record(tmp_path, "Volume", "gone", "shop")
    monkeypatch.setenv("RECONCILE_STATE", "sqlite:x/state.db")
    _record(tmp_path, "Volume", "left", "shop", env="prod", state="sqlite:x/prod/state.db")
    assert completed("plan", "--env", "") == ["base", "preview", "prod", "staging"]
    assert completed("graph", "--env", "pro") == ["prod"]
    assert completed("show", "") == ["Volume/shop/data"]
    assert completed("show", "--env", "prod", "") == [
        f"Volume/shop/{name}" for name in ("data", "left", "own")
    ]
    monkeypatch.setenv("RECONCILE_ENV", "prod")
    assert completed("secret", "fingerprint", "Volume/shop/l") == ["Volume/shop/left"]
    assert completed("drift", "--accept", "Volume/shop/l") == ["Volume/shop/l", "Volume/shop/left"]
    assert completed("drift", "Volume/shop/l") == ["Volume/shop/l"], "of a path, by the shell itself"


def test_branches_are_completed_and_nothing_is_said_outside_of_a_repository(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert completed("plan", "--ref", "") == []
    for line in (
        "init -q -b main",
        "-c user.name=a -c user.email=a@b -c commit.gpgsign=false commit -q --allow-empty -m x",
        "branch topic/one",
        "tag v1",
    ):
        subprocess.run(["git", *line.split()], cwd=tmp_path, check=True)
    assert completed("plan", "--changed-since", "") == ["main", "topic/one", "v1"]
    assert completed("validate", "--ref", "top") == ["topic/one"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert completed("plan", "--ref", "") == []


def test_an_address_to_accept_is_corrected(run: Run) -> None:
    for given, told in (
        ("volume/shop/data", "did you mean `Volume/shop/data`?"),
        ("Volum/shop/data", "did you mean `Volume/shop/data`?"),
        ("nothing", "one looks like Volume/shop/data"),
    ):
        code, _, err = run("drift", "--accept", given)
        assert code == 64
        assert f"`{given}` is neither a path nor an address; {told}" in err


def test_a_schema_of_plans_is_printed_too(run: Run, tmp_path: Path) -> None:
    code, text, _ = run("schema", "plan")
    assert code == 0
    assert json.loads(text)["title"] == "reconciler plan"
    assert run("schema", "plan", "--out", "plan.schema.json")[0] == 0
    assert run("schema", "manifests", "--out", "plan.schema.json")[0] == 1  # it is not one of those
    assert json.loads((tmp_path / "plan.schema.json").read_text()) == json.loads(text)
    assert run("schema", "drift")[0] == 64

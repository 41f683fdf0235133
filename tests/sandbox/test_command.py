"""`reconcile sandbox` as a person starts it, with files and options."""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from textwrap import dedent

import httpx
import pytest

from tests.cli.harness import PATIENCE_S, serving
from tests.cli.warm import run_warm
from tests.sandbox.platform import BEARER

WORLD = Path(__file__).with_name("world.yaml")


@contextmanager
def started(*options: str) -> Iterator[httpx.Client]:
    with (
        serving("--clock", "manual", *options) as sandbox,
        httpx.Client(base_url=sandbox.url, headers=BEARER, trust_env=False) as client,
    ):
        yield client


def failed(*options: str, cwd: Path | None = None) -> tuple[int, str]:
    """Exit code and stderr of a start that must fail."""
    arguments = ["sandbox", "--until-stdin-closes", *options]
    code, _, err = run_warm(arguments, root=cwd or Path.cwd(), env=os.environ, patience_s=PATIENCE_S)
    return code, err


def test_a_world_in_yaml_is_planted_with_defaults() -> None:
    with started("--seed", str(WORLD)) as client:
        world = client.get("/_sandbox/world").json()
        cluster = client.get("/v1/postgres/orders0000000000").json()["data"]
    assert {name: len(things) for name, things in world.items()} == {
        "apps": 1,
        "clusters": 1,
        "volumes": 2,
        "snapshots": 1,
        "secrets": 1,
        "machines": 1,
        "providers": 1,
        "users": 1,
        "resources": 0,
    }
    assert (cluster["status"], cluster["plan"], cluster["organization"]["slug"]) == (
        "ready",
        "launch",
        "acme",
    )
    data, logs = world["volumes"]
    assert (data["size_gb"], data["attached_machine_id"]) == (10, "m1")
    assert (logs["size_gb"], logs["region"], logs["snapshot_retention"]) == (3, "ams", 5)


def test_strictness_switches_and_faults_are_there_from_the_first_request(tmp_path: Path) -> None:
    script = tmp_path / "faults.yaml"
    script.write_text("seed: 7\nfaults:\n  - {action: status, status: 503, path: /v1/postgres/*}\n")
    switches = ("--switch", "secret_status=200", "--switch", "started_word=running")
    with started("--seed", str(WORLD), "--strict", "--faults", str(script), *switches) as client:
        hit = [client.get("/v1/postgres/orders0000000000").status_code for _ in range(2)]
        refused = client.post("/v1/apps/shop/secrets/A", json={"value": "x", "note": ""})
        done = client.post("/v1/apps/shop/secrets/A", json={"value": "x"})
        machine = client.get("/_sandbox/world").json()["machines"][0]
    assert (hit, refused.status_code, done.status_code) == ([503, 200], 422, 200)
    assert machine["state"] == "running"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("volumes: [", "seed.yaml"),
        ("- shop", "it holds no mapping"),
        ("volumes: [{app: shop}]", "seed.yaml: volumes[0].name: is required"),
        ("a: 1\n---\nb: 2", "2 documents instead of one"),
        ("", "0 documents instead of one"),
        ("apps: [{name: shop, name: till}]", "name"),
    ],
)
def test_an_unusable_seed_is_named_without_a_traceback(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "seed.yaml").write_text(text)
    code, err = failed("--seed", "seed.yaml", cwd=tmp_path)
    assert code == 1
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--switch", "nothing=1"), "there is no switch `nothing`"),
        (("--switch", "secret_status"), "is not NAME=VALUE"),
        (("--clock", "fast"), "is not a clock"),
        (("--clock", "x99999999999999999999"), "up to x1000000"),
        (("--token", ""), "the value of --token is empty"),
        (("--token", "a b"), "the token must be"),
        (("--switch", "zones_per_region=1000000000"), "from 1 to 1000"),
    ],
)
def test_a_slip_on_the_command_line_is_a_usage_error(options: Sequence[str], says: str) -> None:
    code, err = failed(*options)
    assert code == 64
    assert says in err


def test_a_misspelt_script_of_faults_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text(json.dumps([{"action": "explode"}]))
    code, err = failed("--faults", "faults.json", cwd=tmp_path)
    assert code == 64
    assert "action" in err


@pytest.mark.parametrize("text", ["hello", "5", "{seed: 1}"])
def test_a_file_that_is_no_script_of_faults_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "faults.yaml").write_text(text)
    code, err = failed("--faults", "faults.yaml", cwd=tmp_path)
    assert code == 64
    assert "faults.yaml: " in err
    assert "action" in err
    assert "Script" not in err


@pytest.mark.parametrize("name", ["state.db", "text.db"])
def test_a_file_of_somebody_else_is_refused_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if name == "text.db":
        file.write_text("not a database, but longer than a page header needs to be" * 10)
    else:
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("CREATE TABLE things (x)")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA application_id = 0x52636e63")
            connection.execute("PRAGMA user_version = 2")
    before = file.read_bytes()
    code, err = failed("--db", name, cwd=tmp_path)
    assert code == 1
    assert f"{name} is not the database of a sandbox" in err
    assert "Traceback" not in err
    assert file.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == [name]


def test_the_seed_of_the_manual_is_the_one_tested() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text()
    body = WORLD.read_text().partition("\n")[2]
    assert dedent(body) in manual

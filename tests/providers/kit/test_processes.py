"""`reconcile provider serve` as real processes: two workers, kill -9, restarts, and refused starts."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.cli.warm import run_warm
from tests.providers.postgres import Postgres
from tests.providers.serve import (
    PATIENCE_S,
    SIGNING_SECRET,
    Platform,
    Provider,
    Reply,
    order,
    serving_provider,
)


def _at_once(count: int, work: Callable[[], Reply]) -> list[Reply]:
    """What `count` threads got that began together."""
    gate, replies = threading.Barrier(count), []

    def one() -> None:
        gate.wait()
        replies.append(work())

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return replies


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not come true"


@contextmanager
def _a_database_begun(postgres: Postgres, begin: Callable[[], Reply]) -> Iterator[Reply]:
    """`begin` waits to create a database, and never makes one. Any other CREATE DATABASE waits, too.

    Those of workers that took the place of killed ones may come at any moment, and go on after the block.
    """
    with psycopg.connect(postgres.url) as holder:
        holder.execute("LOCK TABLE pg_database IN SHARE MODE")
        reply = begin()
        _wait(lambda: bool(_waiting(postgres)))
        begun = _waiting(postgres)
        yield reply
        holder.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", [list(begun)])
        _wait(lambda: not begun & _waiting(postgres))
        holder.rollback()


def _waiting(postgres: Postgres) -> set[int]:
    """The server's processes that try to create a database."""
    return {
        pid
        for (pid,) in postgres.rows(
            "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CREATE DATABASE%' AND state = 'active'"
        )
    }


def test_orders_at_once_with_one_id_make_one_database(provider: Provider, postgres: Postgres) -> None:
    before = postgres.databases()
    assert len(provider.workers()) == 2
    replies = _at_once(8, lambda: provider.platform.provision("at-once"))
    assert [reply.status for reply in replies] == [201] * 8
    assert len({reply.body for reply in replies}) == 1
    assert len(postgres.databases() - before) == 1


def test_a_nonce_is_taken_once_by_two_workers(provider: Provider) -> None:
    provider.platform.provision("nonces")
    for _ in range(5):
        request = provider.platform.sign("GET", "/extensions/nonces")
        replies = _at_once(8, lambda request=request: provider.platform.send(request))  # type: ignore[misc]
        assert sorted(reply.status for reply in replies) == [200] + [401] * 7


def test_a_kill_in_the_middle_leaves_half_a_database_that_the_next_start_completes(
    postgres: Postgres, tmp_path: Path
) -> None:
    store, url = tmp_path / "provider.db", "https://databases.example.com"
    roles, databases = postgres.roles(), postgres.databases()
    with (
        serving_provider(postgres, store, "--answer-s", "0.2", workers=2, public_url=url) as first,
        _a_database_begun(postgres, lambda: first.platform.provision("killed")) as begun,
    ):
        assert (begun.status, begun.json["status"]) == (202, "provisioning")
        first.kill()
    assert len(postgres.roles() - roles) == 1
    assert postgres.databases() == databases
    with serving_provider(postgres, store, workers=2, public_url=url) as second:
        shown = second.platform
        _wait(lambda: shown.call("GET", "/extensions/killed").json["status"] == "ready")
        address = shown.provision("killed").json["config"]["DATABASE_URL"]
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
    assert len(postgres.roles() - roles) == len(postgres.databases() - databases) == 1


def test_a_killed_worker_is_replaced_and_what_it_had_begun_goes_on(
    postgres: Postgres, tmp_path: Path
) -> None:
    with serving_provider(postgres, tmp_path / "p.db", "--answer-s", "0.2", workers=2) as provider:
        with _a_database_begun(postgres, lambda: provider.platform.provision("orphaned")) as begun:
            assert begun.status == 202
            before = set(provider.workers())
            for worker in before:
                os.kill(worker, 9)
            _wait(lambda: len(set(provider.workers()) - before) == 2)
        _wait(lambda: provider.platform.call("GET", "/extensions/orphaned").json["status"] == "ready")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_ends_cleanly_when_it_is_told_to(
    postgres: Postgres, tmp_path: Path, number: int, code: int
) -> None:
    for workers in (1, 2):
        with serving_provider(postgres, tmp_path / f"{workers}.db", workers=workers) as provider:
            pids = provider.workers()
            provider.process.send_signal(number)
            assert provider.process.wait(PATIENCE_S) == code
            assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
            assert "Traceback" not in provider.log.read_text()


def test_workers_do_not_outlive_their_parent(postgres: Postgres, tmp_path: Path) -> None:
    with serving_provider(postgres, tmp_path / "p.db", workers=2) as provider:
        workers = provider.workers()
        provider.process.kill()
        provider.process.wait()
        _wait(lambda: not [pid for pid in workers if _runs(pid)])


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()  # nobody may have taken its end yet
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_an_encoded_slash_or_another_host_does_not_get_past_the_signature(provider: Provider) -> None:
    request = provider.platform.sign("GET", "/extensions/a%2Fb")
    assert provider.platform.send(request).status == 404  # authentic; there is no such resource
    request = provider.platform.sign("GET", "/extensions/a%2Fc")
    wrong = request.url.replace("%2F", "/", 1)
    assert provider.platform.send(type(request)("GET", wrong, request.signatures)).status == 401


ENOUGH = ("--postgres-from", "env:PG", "--signing-secret-from", "env:SIGNING")
STARTS = {
    "no secret": (["--postgres-from", "env:PG"], "no secret to verify"),
    "a secret that is not there": (
        ["--postgres-from", "env:PG", "--signing-secret-from", "env:NOT_SET"],
        "`NOT_SET` is not set",
    ),
    "no server": (
        ["--postgres-from", "env:NO_PG", "--signing-secret-from", "env:SIGNING"],
        "the PostgreSQL server cannot be used",
    ),
    "a port that is taken": (
        [*ENOUGH, "--port", "{taken}"],
        "cannot listen on 127.0.0.1 port {taken}",
    ),
    "a store that is none": (
        [*ENOUGH, "--db", "other.db"],
        "cannot be used as a provider's store",
    ),
    "an address without TLS": (
        [*ENOUGH, "--public-url", "http://example.com"],
        "`http://example.com` is not encrypted",
    ),
    "a store in a folder that is not there": (
        [*ENOUGH, "--db", "none/deeper/x.db"],
        "the directory none/deeper does not exist",
    ),
    "half a sign-in": (
        [*ENOUGH, "--client-id", "x"],
        "sign-in needs",
    ),
}


@pytest.mark.parametrize("case", STARTS)
def test_what_it_cannot_start_with_is_said_in_one_sentence(
    postgres: Postgres, tmp_path: Path, case: str
) -> None:
    arguments, message = STARTS[case]
    (tmp_path / "other.db").write_text("not a database, but long enough to be looked at as one" * 20)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        env = {
            **os.environ,
            "PG": postgres.url,
            "NO_PG": "postgresql://u:the-password@127.0.0.1:1/x",
            "SIGNING": SIGNING_SECRET,
        }
        words = ["provider", "serve", "databases", *(each.replace("{taken}", port) for each in arguments)]
        code, out, err = run_warm(words, root=tmp_path, env=env, patience_s=PATIENCE_S)
    assert code == 1, err
    assert message.replace("{taken}", port) in err
    assert out == ""
    assert "Traceback" not in err
    assert "the-password" not in err
    assert not (tmp_path / "none").exists()
    if case != "a store that is none":
        assert "help:" in err or case == "a secret that is not there"


def test_the_settings_of_the_project_are_enough(postgres: Postgres, tmp_path: Path) -> None:
    (tmp_path / "signing").write_text("from a file\n")
    (tmp_path / "reconcile.yaml").write_text(
        "providers:\n  databases:\n    public_url: https://databases.example.com/base\n"
        "    signing_secret_from: [{file: signing}, {env: BEFORE}]\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "reconciler", "provider", "serve", "databases", "--postgres-from", "env:PG"],
        cwd=tmp_path,
        env={**os.environ, "PG": postgres.url, "BEFORE": SIGNING_SECRET},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("listening on ").strip()
        try:
            for secret in ("from a file", SIGNING_SECRET):
                platform = Platform("https://databases.example.com/base", url, secret)
                assert platform.call("POST", "/extensions", order("settings")).status == 201
            assert (tmp_path / ".reconcile" / "provider-databases.db").stat().st_mode & 0o777 == 0o600
        finally:
            process.terminate()

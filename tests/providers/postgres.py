"""A real PostgreSQL server for tests: its own data directory, a free port, a password that it asks for.

Import `postgres` into a conftest to have it once for each session.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

SUPERUSER = "admin"
_DEBIAN = Path("/usr/lib/postgresql")
_SETTINGS = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=200")


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server. `url`: connection string of its superuser, over TCP with a password."""

    url: str = field(repr=False)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def new(self) -> "Postgres":
        """An empty database of its own on this server."""
        name = f"made_{secrets.token_hex(8)}"
        self.rows(f"CREATE DATABASE {name} STRATEGY file_copy")
        return Postgres(f"{self.url.rpartition('/')[0]}/{name}")

    def at(self, port: int) -> str:
        """The URL with another port of this machine."""
        before, _, rest = self.url.rpartition("@")
        return f"{before}@127.0.0.1:{port}/{rest.partition('/')[2]}"

    def databases(self) -> set[str]:
        return {name for (name,) in self.rows("SELECT datname FROM pg_database WHERE datname LIKE 'ext%'")}

    def roles(self) -> set[str]:
        return {name for (name,) in self.rows("SELECT rolname FROM pg_roles WHERE rolname LIKE 'ext%'")}


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@contextmanager
def running_postgres(settings: Sequence[str] = _SETTINGS, before: Sequence[str] = ()) -> Iterator[Postgres]:
    """A server for the block. Skips where PostgreSQL is not installed, but fails there in CI.

    `before`: statements of an earlier life of the server, which is then started again.
    """
    binaries = installed_postgres()
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # pytest's own folders are closed to other users
    try:
        user = owner_of_servers(folder)
        password = secrets.token_urlsafe(16)
        _initialize(binaries, folder, user, password)
        url = f"postgresql://{SUPERUSER}:{password}@127.0.0.1:{{}}/postgres"
        if before:
            with _process(binaries, folder, user, settings) as port:
                for statement in before:
                    Postgres(url.format(port)).rows(statement)
        with _process(binaries, folder, user, settings) as port:
            yield Postgres(url.format(port))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_standby(server: Postgres) -> Iterator[Postgres]:
    """A standby of `server` for the block: it follows all changes, and takes none itself."""
    binaries = _binaries()
    assert binaries is not None, "the server runs"
    folder = Path(tempfile.mkdtemp(prefix="standby-"))
    try:
        user = owner_of_servers(folder)
        subprocess.run(
            [
                *(binaries / "pg_basebackup", "-d", server.url, "-D", folder / "data"),
                *("--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
            ],
            user=user,
            cwd=folder,
            env=_environment(),
            check=True,
            capture_output=True,
        )
        with _process(binaries, folder, user) as port:
            yield Postgres(server.at(port))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def installed_postgres() -> Path:
    """The folder of `initdb` and `postgres`. Skips where there is none, but fails there in CI."""
    binaries = _binaries()
    if binaries is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed; the package is called postgresql")
        pytest.skip("PostgreSQL is not installed")
    return binaries


def owner_of_servers(folder: Path) -> str | None:
    """PostgreSQL's programs refuse to run as root: another user's name then, who gets `folder`; else None."""
    if os.geteuid() != 0:
        return None
    known = {account.pw_name for account in pwd.getpwall()}
    user = next(name for name in ("postgres", "nobody") if name in known)
    shutil.chown(folder, user)
    return user


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _binaries() -> Path | None:
    """The folder of `initdb` and `postgres`: Debian keeps them out of the path, by version."""
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda file: float(file.parts[-3]))
    found = str(versions[-1]) if versions else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def _initialize(binaries: Path, folder: Path, user: str | None, password: str) -> None:
    secret = folder / "password"
    secret.write_text(password)
    if user:
        shutil.chown(secret, user)
    subprocess.run(
        [
            *(binaries / "initdb", "-D", folder / "data", "-U", SUPERUSER, "--pwfile", secret),
            *("--auth-local=trust", "--auth-host=scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"),
        ],
        user=user,
        cwd=folder,
        env=_environment(),
        check=True,
        capture_output=True,
    )


@contextmanager
def _process(
    binaries: Path, folder: Path, user: str | None, settings: Sequence[str] = _SETTINGS
) -> Iterator[int]:
    """The port of a server process that accepts connections."""
    port = free_port()
    options = [option for setting in settings for option in ("-c", setting)]
    with subprocess.Popen(
        [
            binaries / "postgres",
            "-D",
            folder / "data",
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-k",
            folder,
            *options,
        ],
        user=user,
        cwd=folder,
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        printed = []
        for line in process.stderr:
            printed.append(line)
            if "ready to accept" in line:
                break
        else:
            pytest.fail("PostgreSQL did not start:\n" + "".join(printed))
        drain = threading.Thread(target=process.stderr.read)  # a full pipe would stop the server
        drain.start()
        try:
            yield port
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
            drain.join()


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}

"""PgBouncer before a server of tests."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.providers.postgres import SUPERUSER, Postgres, free_port, owner_of_servers


@contextmanager
def pooled(server: Postgres, mode: str) -> Iterator[str]:
    """The URL that leads through a pooler in this mode. Skips where it is not installed, but fails in CI."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("PgBouncer is not installed; the package is called pgbouncer")
        pytest.skip("PgBouncer is not installed")
    secret, address = server.url.partition("@")[0].rpartition(":")[2], server.url.rpartition("@")[2]
    folder, port = Path(tempfile.mkdtemp(prefix="pooler-")), free_port()
    try:
        user = owner_of_servers(folder)
        settings, users = folder / "pgbouncer.ini", folder / "users"
        users.write_text(f'"{SUPERUSER}" "{secret}"\n')
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={address.partition(':')[2].partition('/')[0]}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = scram-sha-256\nauth_file = {users}\npool_mode = {mode}\n"
        )
        for file in (settings, users):
            if user:
                shutil.chown(file, user)
        with subprocess.Popen([program, "-q", settings], user=user, stderr=subprocess.DEVNULL) as process:
            try:
                _wait_for(port)
                yield server.at(port)
            finally:
                process.terminate()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    pytest.fail("the pooler did not start")

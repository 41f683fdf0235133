"""A role that may not look never makes a drill pass."""

import socket
import struct
import threading

import pytest
from msgspec import structs

from reconciler.core.errors import ReconcilerError
from reconciler.drills.checks.model import Facts
from tests.drills.checks.restored import Restored, names

OF_DATABASES = {"contents", "databases", "schemas", "tables", "rows", "indexes", "constraints", "sequences"}
OF_DATABASES |= {"extensions", "collations", "materialized views", "amcheck"}

# What is done to the role, or hidden from it; and which checks it cannot make.
RIGHTS = {
    "rows": ("REVOKE pg_read_all_data FROM drill", {"rows", "sequences"}),
    "rows behind a policy": ("ALTER TABLE invoices ENABLE ROW LEVEL SECURITY", {"rows", "sequences"}),
    "a database": ("REVOKE CONNECT ON DATABASE app FROM PUBLIC", OF_DATABASES),
    "the check of indexes": ("CREATE EXTENSION amcheck", {"amcheck"}),
}


@pytest.mark.parametrize("hidden", RIGHTS)
async def test_what_the_role_may_not_see_is_not_verified(
    restored: Restored, before: Facts, hidden: str
) -> None:
    statement, expected = RIGHTS[hidden]
    restored.run(statement)
    looked = await restored.look(restored.place(database="postgres"), before=before)
    restored.run("GRANT pg_read_all_data TO drill")
    assert (names(looked, "failed"), names(looked, "could not verify")) == (set(), expected)


async def test_no_password_is_sent_in_the_clear_to_another_machine(restored: Restored) -> None:
    place = structs.replace(restored.place(), host="db.example")
    with pytest.raises(ReconcilerError, match="in the clear"):
        await restored.look(place)


async def test_an_address_in_the_environment_does_not_count(
    restored: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.1")
    assert not names(await restored.look(), "failed")


async def test_a_server_that_repeats_the_password_is_not_repeated(restored: Restored) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=_refuse, args=[listener])
        answering.start()
        looked = await restored.look(restored.place(port=listener.getsockname()[1]))
        answering.join()
    assert looked.checks[0].detail.endswith("FATAL: *** is not the password")


def _refuse(listener: socket.socket) -> None:
    """Ask for the password in the clear, and repeat it in the refusal."""
    with listener.accept()[0] as connection:
        connection.recv(1024)
        connection.sendall(struct.pack("!cII", b"R", 8, 3))
        password = connection.recv(1024)[5:-1]
        fields = b"SFATAL\0C28P01\0M" + password + b" is not the password\0\0"
        connection.sendall(struct.pack("!cI", b"E", len(fields) + 4) + fields)

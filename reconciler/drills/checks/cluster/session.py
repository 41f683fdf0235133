"""A connection to one database of a restored cluster: it asks in read-only transactions, and ends by itself.

What a transaction needs it sets for itself: a pooler may give each of them another session.
"""

import logging
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import psycopg

from reconciler.drills.checks.model import Place
from reconciler.drills.checks.verdicts import Found

logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # its warnings would go to stderr as they are

_STATEMENT_S = 60
_GRACE_S = 2  # in which the server says that a statement took too long

# Neither another function of the same name counts, nor rows that a policy lets through.
_OURS = "; SET LOCAL search_path = pg_catalog; SET LOCAL row_security = off"

FAILURES = (psycopg.Error, TimeoutError, UnicodeError)
# Too little of something, a wrong state, an operator, the network, and the rights of the role.
_UNSEEN = ("53", "55", "57", "08", "0A", "42501")


@dataclass(frozen=True)
class Session:
    """`ends_s`: when its time is over, on the clock of the event loop."""

    connection: psycopg.AsyncConnection[tuple[Any, ...]]
    ends_s: float

    async def ask(self, query: str, *, of_user: bool = False) -> list[tuple[Any, ...]]:
        """The rows of one statement. Raises `FAILURES`."""
        left_s = _left_s(self.ends_s)
        limit_ms = int(1000 * min(_STATEMENT_S, left_s)) + 1  # 0 would be no limit
        limits = f"SET LOCAL statement_timeout = {limit_ms}; SET LOCAL lock_timeout = '5s'"
        with anyio.fail_after(left_s + _GRACE_S):
            async with self.connection.transaction():
                await self.connection.execute((limits if of_user else limits + _OURS).encode())
                # In this protocol a text holds one statement: none ends the transaction.
                cursor = await self.connection.execute(query.encode(), binary=True)
                return await cursor.fetchall()


@asynccontextmanager
async def connected(place: Place, database: str, ends_s: float) -> AsyncIterator[Session]:
    """A session that is closed at the end. Raises `FAILURES`; no text of theirs holds the password."""
    with anyio.fail_after(_left_s(ends_s)):
        try:
            connection = await psycopg.AsyncConnection.connect(
                host=place.host,
                hostaddr="",  # PGHOSTADDR would lead elsewhere
                port=place.port,
                user=place.connect.user,
                password=place.password.reveal(),
                dbname=database,
                sslmode=place.connect.sslmode,
                connect_timeout=10,
                application_name="reconcile drill",
                client_encoding="utf8",
                autocommit=True,
                prepare_threshold=None,
            )
        except psycopg.Error as error:
            hidden = place.password.reveal() or "\n"  # libpq does not repeat it
            raise psycopg.OperationalError(str(error).replace(hidden, "***")) from None
    async with connection:
        await connection.set_read_only(True)
        yield Session(connection, ends_s)


def _left_s(ends_s: float) -> float:
    """Raises TimeoutError when nothing is left."""
    left_s = ends_s - anyio.current_time()
    if left_s <= 0:
        raise TimeoutError
    return left_s


@contextmanager
def noting(what: str, *found: Found) -> Iterator[None]:
    """Note a failure of the block: as damage, or as something that could not be looked at."""
    try:
        yield
    except FAILURES as error:
        for each in found:
            (each.unseen if is_unseen(error) else each.wrong).append(f"{what}: {why(error)}")


def is_unseen(error: Exception) -> bool:
    """Whether the failure says nothing about the data."""
    if not isinstance(error, psycopg.Error) or error.sqlstate is None:
        return True
    return error.sqlstate.startswith(_UNSEEN)


def why(error: Exception) -> str:
    """Libpq's text, or PostgreSQL's word for the failure: its message might hold a value of a row."""
    if isinstance(error, TimeoutError):
        return "no time left"
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return " ".join(str(error).split())
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower().strip("_")

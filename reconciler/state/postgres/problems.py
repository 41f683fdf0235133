"""What PostgreSQL's errors mean for the person who runs this program: a StoreError that says what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from reconciler.core.advice import Command, command
from reconciler.core.errors import StoreError
from reconciler.state.postgres.place import Place

# The connection ended, or the transaction was given up by the server: nothing of it stands, or it is asked.
_LOST = (
    TimeoutError,
    psycopg.InterfaceError,
    errors.AdminShutdown,
    errors.CannotConnectNow,
    errors.CrashShutdown,
    errors.DeadlockDetected,
    errors.IdleInTransactionSessionTimeout,
    errors.SerializationFailure,
)
_RIGHTS = (
    "to plan, a role needs USAGE on the schema `reconcile` and SELECT on its tables; to apply, also INSERT, "
    "UPDATE and DELETE; to make or migrate the state, it must own the schema, or have CREATE on the database"
)

_WITHOUT_TRANSACTIONS = "statement pooling"  # PgBouncer's words: their code is that of any broken protocol

# A connection that does not come about has no code, only the words of libpq and the server.
_UNREACHED = (
    (
        re.compile(r"certificate|sslrootcert"),
        "connect by the name that is in the server's certificate, and name the authority that signed it "
        "(PGSSLROOTCERT, or ?sslrootcert=system in the URL)",
    ),
    (
        re.compile(r"does not support SSL|SSL connection is required|no encryption"),
        "let the server and PGSSLMODE, or ?sslmode= in the URL, agree on TLS",
    ),
    (
        re.compile(r"password|no pg_hba\.conf entry|role .* does not exist"),
        "check the user and the password (PGUSER and PGPASSWORD, ~/.pgpass or the URL): it may have expired",
    ),
    (
        re.compile(r"database .* does not exist"),
        "check the URL, or make the database with CREATE DATABASE; this program makes none",
    ),
    (re.compile(r"session is read-only"), "name the primary server, not a standby"),
)
_CHECK = "check the address in the URL, the server and the network"


class Damaged(Exception):
    """Says which row is not what was written; `explained` adds the place and the way out."""


def is_lost(error: Exception) -> bool:
    """Whether a new connection may do better."""
    if isinstance(error, _LOST):
        return True
    if _WITHOUT_TRANSACTIONS in str(error):
        return False
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith("08")


def explain(error: psycopg.Error | TimeoutError, place: Place) -> StoreError:
    state = f"the state {place.shown}"
    match error:
        case errors.InsufficientPrivilege():
            return StoreError(f"the role may not do this with {state}: {_said(error, place)}", help=_RIGHTS)
        # The second is what a standby says to a transaction that is to write.
        case errors.ReadOnlySqlTransaction() | errors.FeatureNotSupported():
            return StoreError(
                f"{state} takes no changes: {_said(error, place)}",
                help="name the primary server, not a standby, and a role whose transactions may write",
            )
        case _ if _WITHOUT_TRANSACTIONS in str(error):
            return StoreError(
                f"{state} takes no changes: {_said(error, place)}",
                help="set the pooler's pool_mode to transaction, or name the server itself",
            )
        case errors.DiskFull():
            return StoreError(f"no space left for {state}", help="free some on the server and run again")
        case errors.QueryCanceled() | errors.LockNotAvailable() | TimeoutError():
            return StoreError(
                f"{state} did not answer in time",
                help="run again; if it happens again, find out what keeps the server busy",
            )
        case errors.UndefinedTable() | errors.UndefinedColumn():
            restore = way_out()
            return StoreError(
                f"{state} is not whole: {_said(error, place)}",
                help="if another program made the schema `reconcile`, name another database; if only a part "
                f"of the state is left, bring a backup of it to an empty database with `{restore}`",
                advice=(restore,),
            )
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return damaged(place, "PostgreSQL cannot read it")
        case _ if is_lost(error):
            said = _said(error, place)
            advised = (help for words, help in _UNREACHED if words.search(said))
            return StoreError(f"{state} cannot be reached: {said}", help=next(advised, _CHECK))
        case _:
            return StoreError(
                f"{state} cannot be read or written: {_said(error, place)}",
                help="check the database and the rights of its role",
            )


def damaged(place: Place, what: str) -> StoreError:
    restore = way_out()
    return StoreError(
        f"the state {place.shown} is damaged: {what}",
        help=f"restore it from a backup with `{restore}`",
        advice=(restore,),
    )


def way_out() -> Command:
    return command("state", "restore", "FILE")


@contextmanager
def explained(place: Place) -> Iterator[None]:
    """Turn what is found to be damaged into a StoreError that names the place."""
    try:
        yield
    except Damaged as error:
        raise damaged(place, str(error)) from error


@contextmanager
def decoding() -> Iterator[None]:
    """What cannot be decoded was never written there."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged("a row holds what was never written there") from error


def _said(error: psycopg.Error | TimeoutError, place: Place) -> str:
    """The first of what PostgreSQL or libpq says. The details of an error would repeat stored values."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    text = primary or str(error)
    lines = dict.fromkeys(line.strip() for line in text.splitlines() if line.strip())
    return place.without_secrets("; ".join(lines)) or type(error).__name__

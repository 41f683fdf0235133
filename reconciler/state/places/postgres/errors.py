"""What PostgreSQL's errors mean for the person who runs this program: a StoreError that says what to do."""

import re

import psycopg
from psycopg import errors

from reconciler.core.advice import command
from reconciler.core.errors import StoreError
from reconciler.state.log.damage import damaged
from reconciler.state.places.postgres.url import DatabaseUrl

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


def is_lost(error: Exception) -> bool:
    """Whether a new connection may do better."""
    if isinstance(error, _LOST):
        return True
    if _WITHOUT_TRANSACTIONS in str(error):
        return False
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith("08")


def explain(error: psycopg.Error | TimeoutError, url: DatabaseUrl) -> StoreError:
    """What an error means for the person at the command line. No stored value and no password is in it."""
    state = f"the state {url.shown}"
    match error:
        case errors.InsufficientPrivilege():
            return StoreError(f"the role may not do this with {state}: {said(error, url)}", help=_RIGHTS)
        # The second is what a standby says to a transaction that is to write.
        case errors.ReadOnlySqlTransaction() | errors.FeatureNotSupported():
            return StoreError(
                f"{state} takes no changes: {said(error, url)}",
                help="name the primary server, not a standby, and a role whose transactions may write",
            )
        case _ if _WITHOUT_TRANSACTIONS in str(error):
            return StoreError(
                f"{state} takes no changes: {said(error, url)}",
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
            return not_whole(url.shown, said(error, url))
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return damaged(url.shown, "PostgreSQL cannot read it")
        case _ if is_lost(error):
            text = said(error, url)
            advised = (help for words, help in _UNREACHED if words.search(text))
            return StoreError(f"{state} cannot be reached: {text}", help=next(advised, _CHECK))
        case _:
            return StoreError(
                f"{state} cannot be read or written: {said(error, url)}",
                help="check the database and the rights of its role",
            )


def not_whole(place: str, what: str) -> StoreError:
    """The schema holds other tables than a state has."""
    restore = command("state", "restore", "FILE")
    return StoreError(
        f"the state {place} is not whole: {what}",
        help="if another program made the schema `reconcile`, name another database; if only a part "
        f"of the state is left, bring a backup of it to an empty database with `{restore}`",
        advice=(restore,),
    )


def said(error: psycopg.Error | TimeoutError, url: DatabaseUrl) -> str:
    """The first of what PostgreSQL or libpq says. The details of an error would repeat stored values."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    text = primary or str(error)
    lines = dict.fromkeys(line.strip() for line in text.splitlines() if line.strip())
    return url.without_secrets("; ".join(lines)) or type(error).__name__

"""What a look into a restored cluster starts from, and what it gives."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from reconciler.secrets.sensitive import Sensitive


class Place(Struct, frozen=True):
    """Where the restored cluster answers. PGSSLROOTCERT says by which authority a certificate is verified."""

    host: str
    port: int
    user: str
    password: Sensitive
    database: str
    sslmode: Literal["disable", "require", "verify-ca", "verify-full"]


class SqlCheck(Struct, frozen=True):
    """A query that gives one row, whose first column must be as `expect` says; see `parse_expect`."""

    sql: str
    expect: str


class DatabaseFacts(Struct, frozen=True):
    """`tables`: how many. `rows`: of some of them, by `schema.table`; from `MANY_ROWS` on, an estimate."""

    name: str
    schemas: tuple[str, ...]
    extensions: tuple[str, ...]
    tables: int
    rows: dict[str, int]


class Facts(Struct, frozen=True):
    """What later drills compare with: names and numbers, no row of a user."""

    databases: tuple[DatabaseFacts, ...] = ()
    size_bytes: int = 0
    recovery_point: datetime | None = None


class Wanted(Struct, frozen=True):
    """What the restore promised; None: nothing.

    `point`: the time that was asked for (`exact`: newer changes must not be there), or the end of the backup.
    `before`: of the last good drill.
    """

    pg_major_version: str | None
    postgis_enabled: bool | None
    point: datetime | None
    checks: tuple[SqlCheck, ...] = ()
    before: Facts | None = None
    exact: bool = False


class Checked(Struct, frozen=True):
    """`detail`: one line that names objects and never repeats a value of theirs."""

    name: str
    verdict: Literal["passed", "failed", "could not verify", "not configured"]
    detail: str


class Looked(Struct, frozen=True):
    """`recovery_point`: the newest change that is there; None where nothing says it."""

    checks: tuple[Checked, ...]
    facts: Facts
    recovery_point: datetime | None
    size_bytes: int

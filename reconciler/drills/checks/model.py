"""What a look into a restored cluster starts from, and what it gives."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from reconciler.policies.drill import Check, Connect
from reconciler.secrets.sensitive import Sensitive


class Place(Struct, frozen=True):
    """Where the restored cluster answers. PGSSLROOTCERT says by which authority a certificate is verified."""

    host: str
    port: int
    connect: Connect
    password: Sensitive


class DatabaseFacts(Struct, frozen=True):
    """`tables`: how many. `rows`: of some of them, by `schema.table`; from `MANY_ROWS` on, an estimate."""

    name: str
    schemas: tuple[str, ...]
    extensions: tuple[str, ...]
    tables: int
    rows: dict[str, int]


class Facts(Struct, frozen=True):
    """What later drills compare with: names and numbers, no row of a user.

    `recovery_point`: the newest change that is there; None where nothing says it.
    """

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
    checks: Sequence[Check] = ()
    before: Facts | None = None
    exact: bool = False

    @property
    def until(self) -> datetime | None:
        """The point; of a backup, whose end is told in whole seconds, all of that second."""
        return self.point.replace(microsecond=999_999) if self.point and not self.exact else self.point


class Checked(Struct, frozen=True):
    """`detail`: one line that names objects and never repeats a value of theirs."""

    name: str
    verdict: Literal["passed", "failed", "could not verify", "not configured"]
    detail: str


class Looked(Struct, frozen=True):
    checks: tuple[Checked, ...]
    facts: Facts

"""A real provider: each resource is a database of its own, with its own role, in one PostgreSQL server.

The provider touches only roles and databases that it made. The role is made together with a comment that
names the provider and the resource, in one transaction; the database belongs to that role. So a half-made
resource is recognised and completed, and a stranger's database of the same name is left alone.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, LiteralString
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from reconciler.core.errors import ReconcilerError
from reconciler.providers.kit.functions import Cost, Declined, Provisioned, Report, Resource, Visitor

PLAN = "standard"
CONNECTIONS_PER_REGION = 20
LARGEST_SHARE = 4  # one resource gets at most a fourth of the server's connections
PRICE_PER_MONTH = Decimal("5.00")
PRICE_PER_GB_MONTH = Decimal("0.25")

_Connection = psycopg.AsyncConnection[Any]
_CONNECT_TIMEOUT_S = 5
_GB = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PostgresProvider:
    """`server`: a connection string whose role may create roles and databases. `name`: this provider's."""

    server: str = field(repr=False)
    name: str

    async def check(self) -> Sequence[str]:
        """The databases that every role may connect to; there, tenants would see each other's names.

        Raises ReconcilerError when the server cannot be reached or the role may not do what it must.
        """
        try:
            async with self._connected() as connection:
                ((able,),) = await _rows(
                    connection,
                    "SELECT rolsuper OR (rolcreatedb AND rolcreaterole) FROM pg_roles"
                    " WHERE rolname = current_user",
                )
                open_to_all = await _rows(
                    connection,
                    "SELECT datname FROM pg_database WHERE datallowconn AND"
                    " has_database_privilege('public', oid, 'CONNECT') ORDER BY datname",
                )
        except psycopg.Error as failure:
            # libpq's text names host, port and user, never the password.
            reason = str(failure).strip().splitlines()
            raise ReconcilerError(
                f"the PostgreSQL server cannot be used: {reason[0] if reason else type(failure).__name__}",
                help="check the connection string, and that the server is running",
            ) from None
        if not able:
            raise ReconcilerError(
                "the PostgreSQL role may not create roles and databases",
                help="ALTER ROLE … CREATEROLE CREATEDB",
            )
        return [str(name) for (name,) in open_to_all]

    async def provision(self, resource: Resource) -> Provisioned:
        """Make the missing of role and database. The password is derived from the key, not stored."""
        name, password = _name_of(resource), resource.secret("database password")
        named = sql.Identifier(name)
        async with self._connected() as connection:
            if not await self._owns_role(connection, resource):
                await self._make_role(connection, resource, password)
            owner = await self._owner(connection, name)
            if owner is None:
                # template1 is open to every role: one that is connected to it would block all creates.
                await _run(connection, "CREATE DATABASE {} OWNER {} TEMPLATE template0", named, named)
            elif owner != name:
                raise Declined("a database with this name exists, but this provider did not create it")
            # Every role may connect to a new database until this is said; saying it again changes nothing.
            await _run(connection, "REVOKE CONNECT ON DATABASE {} FROM PUBLIC", named)
            address = _address(connection, name, password)
        return Provisioned({"DATABASE_URL": address}, plan=PLAN)

    async def update(self, resource: Resource) -> None:
        """Set the connection limit: every region may hold connections of its own. No database moves."""
        async with self._connected() as connection:
            if not await self._owns_role(connection, resource):
                raise RuntimeError("the role is gone")
            name, limit = sql.Identifier(_name_of(resource)), await _connections(connection, resource)
            await _run(connection, "ALTER ROLE {} CONNECTION LIMIT {}", name, sql.Literal(limit))

    async def get(self, resource: Resource, visitor: Visitor | None) -> Report:
        """`sleeping` while the role may not log in. Members are not shown what the server counts."""
        name = _name_of(resource)
        async with self._connected() as connection:
            found = await _rows(
                connection,
                "SELECT rolcanlogin, rolconnlimit, pg_database_size(datname),"
                " (SELECT count(*) FROM pg_stat_activity a WHERE a.datname = d.datname)"
                " FROM pg_roles r JOIN pg_database d ON d.datdba = r.oid"
                " WHERE rolname = %s AND datname = %s",
                name,
                name,
            )
        if not found:
            return Report("error", PLAN, {"error": "the database or its role is gone"})
        ((may_log_in, limit, size, connections),) = found
        details: dict[str, Any] = {"database": name, "size_bytes": size}
        if visitor is None or visitor.role == "admin":
            details |= {"connections": connections, "connection_limit": limit}
        return Report("ready" if may_log_in else "sleeping", PLAN, details)

    async def deprovision(self, resource: Resource) -> None:
        """Drop the database first and the role last: the role is the mark that the rest is ours."""
        name = sql.Identifier(_name_of(resource))
        async with self._connected() as connection:
            if not await self._owns_role(connection, resource):
                return
            await _run(connection, "ALTER ROLE {} NOLOGIN", name)
            if await self._owner(connection, _name_of(resource)) == _name_of(resource):
                await _run(connection, "DROP DATABASE {} WITH (FORCE)", name)
            await _run(connection, "DROP ROLE {}", name)

    async def costs(self, resources: Sequence[Resource]) -> Sequence[Cost]:
        """A flat price and one for each GB that the database takes now."""
        async with self._connected() as connection:
            rows = await _rows(
                connection,
                "SELECT datname, pg_database_size(datname) FROM pg_database d WHERE datname = ANY(%s)",
                [_name_of(resource) for resource in resources],
            )
        sizes = dict(rows)
        costs = []
        for resource in resources:
            size = sizes.get(_name_of(resource), 0)
            amount = PRICE_PER_MONTH + PRICE_PER_GB_MONTH * Decimal(size) / _GB
            costs.append(
                Cost(resource.id, str(amount.quantize(Decimal("0.0001"))), details={"size_bytes": size})
            )
        return costs

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[_Connection]:
        connection = await psycopg.AsyncConnection.connect(
            self.server, autocommit=True, connect_timeout=_CONNECT_TIMEOUT_S
        )
        async with connection:
            yield connection

    async def _make_role(self, connection: _Connection, resource: Resource, password: str) -> None:
        name = _name_of(resource)
        # The server gets, and perhaps logs, only what it stores: never the password itself.
        verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256")
        limit = await _connections(connection, resource)
        async with connection.transaction():
            try:
                await _run(
                    connection,
                    "CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE"
                    " CONNECTION LIMIT {} PASSWORD {}",
                    sql.Identifier(name),
                    sql.Literal(limit),
                    sql.Literal(verifier.decode()),
                )
            except psycopg.errors.DuplicateObject:
                raise Declined("a role with this name exists, but this provider did not create it") from None
            await self._put_mark(connection, resource)
            ((superuser,),) = await _rows(
                connection, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
            )
            if not superuser:  # who makes a database for a role must be a member of it
                await _run(connection, "GRANT {} TO CURRENT_USER", sql.Identifier(name))

    async def _owns_role(self, connection: _Connection, resource: Resource) -> bool:
        query = "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = %s"
        found = await _rows(connection, query, _name_of(resource))
        if found == [(f"{self._maker()}: {resource.order.id}",)]:
            await self._put_mark(connection, resource)  # as versions before 0.3 wrote it
            return True
        return found == [(self._mark(resource),)]

    async def _put_mark(self, connection: _Connection, resource: Resource) -> None:
        name, mark = sql.Identifier(_name_of(resource)), sql.Literal(self._mark(resource))
        await _run(connection, "COMMENT ON ROLE {} IS {}", name, mark)

    async def _owner(self, connection: _Connection, database: str) -> str | None:
        query = "SELECT rolname FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba WHERE datname = %s"
        found = await _rows(connection, query, database)
        return str(found[0][0]) if found else None

    def _mark(self, resource: Resource) -> str:
        """The comment by which a role is recognised as ours. Every role can read it, so it holds no id."""
        return f"{self._maker()}: {resource.secret('mark of the role')}"

    def _maker(self) -> str:
        return f"extension provider {self.name}"


def _name_of(resource: Resource) -> str:
    """The name of database and role: from the platform's id alone, so that it never changes."""
    return f"ext_{hashlib.sha256(resource.order.id.encode()).hexdigest()[:24]}"


async def _connections(connection: _Connection, resource: Resource) -> int:
    """How many connections the resource may hold: some for each region, at most a share of the server's."""
    wanted = CONNECTIONS_PER_REGION * (1 + len(set(resource.order.read_regions or [])))
    ((most,),) = await _rows(connection, "SELECT current_setting('max_connections')::int")
    return int(min(wanted, max(1, most // LARGEST_SHARE)))


def _address(connection: _Connection, name: str, password: str) -> str:
    """The database's connection string, at the host by which this provider reaches the server itself."""
    info = connection.info
    credentials = f"{quote(name)}:{quote(password)}"
    if info.host.startswith("/"):
        return (
            f"postgresql://{credentials}@/{quote(name)}?{urlencode({'host': info.host, 'port': info.port})}"
        )
    host = f"[{info.host}]" if ":" in info.host else info.host
    mode = conninfo_to_dict(info.dsn).get("sslmode")
    query = "" if mode is None else f"?{urlencode({'sslmode': mode})}"
    return f"postgresql://{credentials}@{host}:{info.port}/{quote(name)}{query}"


async def _run(connection: _Connection, statement: LiteralString, *parts: sql.Composable) -> None:
    await connection.execute(sql.SQL(statement).format(*parts))


async def _rows(connection: _Connection, query: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
    return await (await connection.execute(query, values or None)).fetchall()

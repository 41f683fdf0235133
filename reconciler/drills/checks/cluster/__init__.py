"""Looks into a restored cluster, read-only: its server, the SQL checks of a manifest, and each database.

The role needs CONNECT on each database; one without it could not be verified. What else a check reads:

- databases, schemas, tables, contents, indexes, constraints, extensions, collations, materialized views: the
  catalog, which every role may read
- rows, sequences: SELECT on tables and sequences, such as by `GRANT pg_read_all_data TO drill`; a table
  whose rows a policy hides could not be verified
- recovery point: nothing; after another start of the restored server, `track_commit_timestamp = on`
- amcheck: the extension in the database, and EXECUTE on `bt_index_check(regclass)`
- SQL checks: what their queries read

Not looked at: unlogged and foreign tables, partitions apart from their table, what extensions own, and the
versions of collations that no column uses.
"""

from datetime import UTC

import anyio
import psycopg
from msgspec.structs import replace

from reconciler.core.errors import ReconcilerError
from reconciler.drills.checks.cluster.database import check_btrees, look_into_database
from reconciler.drills.checks.cluster.session import FAILURES, Session, connected, is_unseen, noting, why
from reconciler.drills.checks.model import Checked, DatabaseFacts, Facts, Looked, Place, Wanted
from reconciler.drills.checks.verdicts import Found, compare_names, judge_point, judge_server
from reconciler.policies.drill import Check, parse_expect
from reconciler.services.transport import is_loopback

# Tables whose rows are counted and kept: in the whole cluster, and of each database however many there are.
_MOST_TABLES, _LEAST_TABLES = 200, 5

_COMPARED = ("databases", "schemas", "tables")
_OF_CATALOG = ("indexes", "constraints", "sequences", "extensions", "collations", "materialized views")
_OF_DATABASES = ("contents", *_COMPARED, "rows", *_OF_CATALOG, "amcheck")
_NAMES = ("reachable", "recovered", "version", "postgis", "recovery point", *_OF_DATABASES)

_SERVER = """SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(),
    pg_last_xact_replay_timestamp(), NULLIF(current_setting('recovery_target_time'), '')::timestamptz,
    EXISTS (SELECT FROM pg_available_extensions WHERE name = 'postgis')"""
# Commits of the restored server itself do not count: neither those since its start, nor any after the point.
_NEWEST_COMMIT = """SELECT max(at) FROM (
        SELECT CASE WHEN current_setting('track_commit_timestamp') = 'on'
            THEN pg_xact_commit_timestamp((number % 4294967296)::bigint::text::xid) END
        FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::numeric - back
            FROM generate_series(1, 10000) AS back) AS recent (number)
        WHERE number >= 3 AND number % 4294967296 >= 3) AS commits (at)
    WHERE at <= LEAST(pg_postmaster_start_time(), '{}')"""
_DATABASES = """SELECT datname::text,
        CASE WHEN has_database_privilege(oid, 'CONNECT') THEN pg_database_size(oid) ELSE 0 END
    FROM pg_database WHERE datallowconn AND NOT datistemplate AND datconnlimit <> -2
    ORDER BY datname <> current_database(), datname"""


async def look(place: Place, wanted: Wanted, *, deadline_s: float) -> Looked:
    """Return a verdict for each check, in order; what `deadline_s` left no time for could not be verified.

    No trouble of the cluster raises. Raises ReconcilerError for `sslmode: disable` to another machine.
    """
    host = f"[{place.host}]" if ":" in place.host else place.host
    if place.connect.sslmode == "disable" and not is_loopback(f"//{host}"):
        raise ReconcilerError(
            f"`sslmode: disable` would send the password to {place.host} in the clear",
            help="set `sslmode: require`; `disable` is for loopback addresses",
        )
    ends_s = anyio.current_time() + deadline_s
    queries = {f"sql {number}": check for number, check in enumerate(wanted.checks, 1)}
    checks: dict[str, Checked] = {}
    facts = Facts()
    try:
        async with connected(place, place.connect.database, ends_s) as session:
            checks["reachable"] = Checked("reachable", "passed", "it answers")
            facts = await _look_at_server(session, wanted, checks)
            for name, check in queries.items():
                checks[name] = await _run_check(session, name, check)
        facts = await _look_at_databases(place, wanted, facts, checks, ends_s)
    except FAILURES as error:
        checks.setdefault("reachable", Checked("reachable", "failed", why(error)))
        for name in (*_NAMES, *queries):
            checks.setdefault(name, Checked(name, "could not verify", why(error)))
    return Looked(tuple(checks.values()), facts)


async def _look_at_server(session: Session, wanted: Wanted, checks: dict[str, Checked]) -> Facts:
    """Return the names of the databases, and no more about them."""
    ((version, is_recovering, newest, target, has_postgis),) = await session.ask(_SERVER)
    if newest is None:
        ((newest,),) = await session.ask(_NEWEST_COMMIT.format(wanted.until or "infinity"))
    newest = newest and newest.astimezone(UTC)
    judged = judge_server(wanted, version, is_recovering, has_postgis)
    judged.append(judge_point(wanted, newest, target and target.astimezone(UTC)))
    checks |= {checked.name: checked for checked in judged}
    sizes = await session.ask(_DATABASES)
    databases = tuple(DatabaseFacts(name, (), (), 0, {}) for name, _ in sizes)
    return Facts(databases, sum(size for _, size in sizes), newest)


async def _look_at_databases(
    place: Place, wanted: Wanted, facts: Facts, checks: dict[str, Checked], ends_s: float
) -> Facts:
    """Return `facts` with all about the databases that answer."""
    found = {name: Found() for name in _OF_DATABASES}
    before = {database.name: database for database in wanted.before.databases} if wanted.before else {}
    names = [database.name for database in facts.databases]
    compare_names(found["databases"], "database ", before, names)
    for name in _COMPARED:
        found[name].skipped = "nothing to compare with before the first good drill"
    found["amcheck"].skipped = "no database has the extension amcheck"
    most = max(_LEAST_TABLES, _MOST_TABLES // max(1, len(names)))
    looked = []
    for name in names:
        with noting(f"database {name}", *found.values()):
            async with connected(place, name, ends_s) as session:
                looked.append(await look_into_database(session, name, found, before.get(name), most))
    for database in looked:
        if "amcheck" in database.extensions:
            with noting(f"database {database.name}", found["amcheck"]):
                async with connected(place, database.name, ends_s) as session:
                    await check_btrees(session, database.name, found["amcheck"])
    contents = found["contents"]
    contents.looked = sum(database.tables for database in looked)
    if not contents.looked and not contents.unseen:
        contents.wrong.append("empty: no database has a table")
    checks |= {name: each.checked(name) for name, each in found.items()}
    return replace(facts, databases=tuple(looked))


# --- the SQL checks: the server compares, so that no value of a row leaves it ---


async def _run_check(session: Session, name: str, check: Check) -> Checked:
    """Whether the first column of the only row is as expected."""
    try:
        ((rows, holds),) = await session.ask(_compared(check), of_user=True)
    except FAILURES as error:
        lost = is_unseen(error) or isinstance(error, psycopg.errors.SyntaxError)
        return Checked(name, "could not verify" if lost else "failed", f"the query ended: {why(error)}")
    if rows != 1:
        return Checked(name, "failed", f"the query gave {'more than one row' if rows else 'no row'}")
    said = f"{check.expect} {'holds' if holds else 'does not hold'}"
    return Checked(name, "passed" if holds else "failed", said)


def _compared(check: Check) -> str:
    """A query for the number of rows, 2 at most, and whether the comparison holds for them all."""
    return (
        f"SELECT count(*), bool_and(first_of_row {parse_expect(check.expect)})"
        f" FROM (SELECT * FROM (\n{check.sql.strip().removesuffix(';')}\n) AS q LIMIT 2) AS q (first_of_row)"
    )

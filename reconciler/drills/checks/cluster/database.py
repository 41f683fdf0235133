"""One database of a restored cluster: its catalog, its sequences, the rows of its tables, its indexes.

Objects of users have ids from 16384 on. A partition, or another child of a table, counts with that table.
PostgreSQL itself writes the queries about single objects, so that every name is quoted.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.drills.checks.cluster.session import Session, noting
from reconciler.drills.checks.model import DatabaseFacts
from reconciler.drills.checks.verdicts import MANY_ROWS, Found, compare_names, compare_rows

_MOST_SCHEMAS = 100  # that are kept
_USERS_SCHEMA = "nspname !~ '^pg_' AND nspname <> 'information_schema'"

# By check: what is wrong with an object, and the query for their names, and whether each is wrong.
_CATALOG = {
    "indexes": (
        "index {} is not valid",
        """SELECT indexrelid::regclass::text, NOT (indisvalid AND indisready AND indislive)
        FROM pg_index WHERE indexrelid >= 16384""",
    ),
    "constraints": (
        "constraint {} is not validated",
        "SELECT format('%I of %s', conname, conrelid::regclass), NOT convalidated"
        " FROM pg_constraint WHERE oid >= 16384",
    ),
    "materialized views": (
        "materialized view {} is not populated",
        "SELECT oid::regclass::text, NOT relispopulated FROM pg_class WHERE relkind = 'm'",
    ),
    "extensions": (
        "extension {} is not available on the server",
        """SELECT extname::text, a.name IS NULL
        FROM pg_extension LEFT JOIN pg_available_extensions a ON a.name = extname""",
    ),
    # What another version of a collation sorted may be in the wrong order.
    "collations": (
        "collation {} has another version",
        """SELECT 'of the database', datcollversion <> pg_database_collation_actual_version(oid)
        FROM pg_database WHERE datname = current_database()
        UNION ALL SELECT oid::regcollation::text, collversion <> pg_collation_actual_version(oid)
        FROM pg_collation c WHERE EXISTS (SELECT FROM pg_attribute WHERE attcollation = c.oid)""",
    ),
}
_SCHEMAS = f"SELECT nspname::text FROM pg_namespace WHERE {_USERS_SCHEMA} ORDER BY 1"
_EXTENSIONS = "SELECT extname::text FROM pg_extension ORDER BY 1"
_TABLES = f"""SELECT c.oid::regclass::text, format(
        'SELECT CASE WHEN count(*) < {MANY_ROWS} THEN count(*) ELSE greatest({MANY_ROWS}, %s::bigint) END
        FROM (SELECT FROM %s LIMIT {MANY_ROWS}) AS counted', reltuples, c.oid::regclass)
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relkind IN ('r', 'p') AND relpersistence = 'p' AND c.oid >= 16384 AND {_USERS_SCHEMA}
        AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid)
        AND NOT EXISTS (SELECT FROM pg_depend
            WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e')
    ORDER BY relkind, relpages DESC, 1"""
# Whether a column has the next value already, or is beyond it: of who owns a sequence, or asks it by default.
_SEQUENCES = """WITH used (sequence, relation, number) AS (
        SELECT objid, refobjid, refobjsubid FROM pg_depend
        WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass
            AND deptype IN ('a', 'i') AND refobjsubid > 0
        UNION SELECT refobjid, adrelid, adnum FROM pg_depend JOIN pg_attrdef d ON d.oid = objid
        WHERE classid = 'pg_attrdef'::regclass AND refclassid = 'pg_class'::regclass)
    SELECT format('%s of %s.%I', sequence::regclass, relation::regclass, attname), format(
        CASE WHEN seqincrement > 0 THEN 'SELECT max(%I) >= ' ELSE 'SELECT min(%I) <= ' END
        || '(SELECT last_value::numeric + CASE WHEN is_called THEN %s ELSE 0 END FROM %s) FROM %s',
        attname, seqincrement, sequence::regclass, relation::regclass)
    FROM used JOIN pg_sequence ON seqrelid = sequence JOIN pg_class c ON c.oid = relation
        JOIN pg_attribute ON attrelid = relation AND attnum = number
    WHERE NOT seqcycle AND relpersistence = 'p'
        AND atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype)
        AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = relation)
    ORDER BY 1"""
# The smallest first: so most of them are looked at in the time.
_BTREES = """SELECT i.oid::regclass::text,
        format('SELECT %I.bt_index_check(%s::oid::regclass)::text', nspname, i.oid)
    FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace, pg_index
        JOIN pg_class i ON i.oid = indexrelid JOIN pg_am a ON a.oid = i.relam
    WHERE extname = 'amcheck' AND amname = 'btree' AND relkind = 'i' AND relpersistence = 'p'
        AND indisvalid AND indisready AND indislive
    ORDER BY relpages, i.oid"""


async def look_into_database(
    session: Session, name: str, found: Mapping[str, Found], before: DatabaseFacts | None, most_tables: int
) -> DatabaseFacts:
    """Note what is wrong, by check, also against `before`. Counts the rows of `most_tables` tables at most.

    Raises one of `FAILURES` where even the names cannot be read.
    """
    for check, (text, query) in _CATALOG.items():
        with noting(name, found[check]):
            objects = await session.ask(query)
            found[check].looked += len(objects)
            found[check].wrong += [f"{text.format(label)} in {name}" for label, wrong in objects if wrong]
    with noting(name, late := found["sequences"]):
        behind = await _probe(session, late, f"sequence {name}", dict(await session.ask(_SEQUENCES)))
        late.wrong += [f"sequence {name}.{label} is behind" for label in behind if behind[label]]
    schemas = [schema for (schema,) in await session.ask(_SCHEMAS)]
    extensions = [extension for (extension,) in await session.ask(_EXTENSIONS)]
    tables: dict[str, str] = dict(await session.ask(_TABLES))
    had = before.rows if before else {}
    counted = sorted(tables, key=lambda table: table not in had)[:most_tables]
    rows = await _probe(session, found["rows"], f"table {name}", {table: tables[table] for table in counted})
    if before:
        compare_names(found["schemas"], f"schema {name}.", before.schemas, schemas)
        compare_names(found["extensions"], f"extension {name}.", before.extensions, extensions)
        compare_names(found["tables"], f"table {name}.", had, tables)
        compare_rows(found["rows"], name, had, rows)
        if len(tables) * 2 < before.tables:
            found["tables"].wrong.append(f"database {name} has lost more than half of its tables")
    return DatabaseFacts(name, tuple(schemas[:_MOST_SCHEMAS]), tuple(extensions), len(tables), rows)


async def check_btrees(session: Session, name: str, found: Found) -> None:
    """Note each damaged B-tree index, page by page, where the extension amcheck is installed."""
    await _probe(session, found, f"index {name}", dict(await session.ask(_BTREES)))


async def _probe(session: Session, found: Found, what: str, queries: Mapping[str, str]) -> dict[str, Any]:
    """The one value that each query gives, by its object. A query that fails is noted."""
    values = {}
    for label, query in queries.items():
        with noting(f"{what}.{label}", found):
            ((values[label],),) = await session.ask(query)
            found.looked += 1
    return values

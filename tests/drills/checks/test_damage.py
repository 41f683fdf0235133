"""Each damage that a bad restore may leave is found in a real server, by the check that is about it."""

from typing import Any

import anyio
import pytest

from reconciler.drills.checks.model import Facts
from reconciler.policies.drill import Check
from tests.drills.checks.restored import APP, PASSWORD, Restored, names

# What is done to the database `app`, and which checks fail then.
DAMAGES = {
    "truncated table": ("TRUNCATE sales.orders", {"rows"}),
    "lost rows": ("DELETE FROM sales.orders WHERE id > 100", {"rows"}),
    "sequence behind": ("SELECT setval('customers_id_seq', 299)", {"sequences"}),
    "sequence behind that gave nothing": ("SELECT setval('customers_id_seq', 300, false)", {"sequences"}),
    "identity behind": ("ALTER TABLE sales.orders ALTER id RESTART", {"sequences"}),
    "sequence of a default behind": ("SELECT setval('numbers', 4)", {"sequences"}),
    "owned sequence behind": (
        """CREATE TABLE parts AS SELECT 7 AS id; CREATE SEQUENCE part_ids OWNED BY parts.id;
        SELECT nextval('part_ids')""",
        {"sequences"},
    ),
    "falling sequence behind": ("SELECT setval('downward', -4)", {"sequences"}),
    "missing extension": ("DROP EXTENSION pg_trgm", {"extensions"}),
    "extension without files": (
        "CREATE EXTENSION hstore; UPDATE pg_extension SET extname = 'nowhere' WHERE extname = 'hstore'",
        {"extensions"},
    ),
    "unpopulated view": ("REFRESH MATERIALIZED VIEW totals WITH NO DATA", {"materialized views"}),
    "invalid index": (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'sales.amounts'::regclass",
        {"indexes"},
    ),
    "constraint not validated": (
        "ALTER TABLE sales.orders ADD CONSTRAINT small CHECK (amount < 1e6) NOT VALID",
        {"constraints"},
    ),
    "missing schema": ("DROP SCHEMA sales CASCADE", {"schemas", "tables"}),
    "missing table": ("DROP TABLE invoices", {"tables"}),
    "other collation": (
        "UPDATE pg_collation SET collversion = '1' WHERE collname = 'english'",
        {"collations"},
    ),
    "other collation of the database": (
        "UPDATE pg_database SET datcollversion = '1' WHERE datname = 'app'",
        {"collations"},
    ),
    "damaged index": (
        """CREATE EXTENSION amcheck;
        GRANT EXECUTE ON FUNCTION bt_index_check(regclass) TO drill;
        CREATE FUNCTION compare(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 - $2';
        CREATE OPERATOR CLASS odd FOR TYPE int USING btree AS
            OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 compare;
        CREATE INDEX ON customers (id odd);
        CREATE OR REPLACE FUNCTION compare(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS '
            SELECT $2 - $1'""",
        {"amcheck"},
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_is_found_by_its_check_alone(restored: Restored, before: Facts, damage: str) -> None:
    statements, expected = DAMAGES[damage]
    restored.run(statements)
    looked = await restored.look(before=before)
    assert names(looked, "failed") == expected
    assert not names(looked, "could not verify")


async def test_an_empty_restore_is_found(restored: Restored, before: Facts) -> None:
    restored.end()
    restored.run(f"CREATE DATABASE {APP}", "postgres")
    restored.run(
        "CREATE EXTENSION hstore; CREATE TABLE of_extension (); ALTER EXTENSION hstore ADD TABLE of_extension"
    )
    assert names(await restored.look(), "failed") == {"contents"}
    assert names(await restored.look(before=before), "failed") == {
        "contents",
        "schemas",
        "tables",
        "extensions",
    }


async def test_a_missing_database_is_found(restored: Restored) -> None:
    restored.run("CREATE DATABASE ledger", "postgres")
    before = (await restored.look()).facts
    restored.run("DROP DATABASE ledger", "postgres")
    assert names(await restored.look(before=before), "failed") == {"databases"}


async def test_a_table_that_cannot_be_read_is_found(restored: Restored) -> None:
    restored.damage("customers")
    looked = await restored.look()
    assert "rows" in names(looked, "failed")
    (rows,) = (check for check in looked.checks if check.name == "rows")
    assert rows.detail == "table app.public.customers: data corrupted"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"database": "shop"}, 'database "shop" does not exist'),
        ({"password": "s3cret-of-another"}, "password authentication failed"),
        ({"port": 9}, "Connection refused"),
    ],
    ids=["wrong database", "wrong password", "unreachable"],
)
async def test_a_server_that_does_not_answer_is_found(
    restored: Restored, changed: dict[str, Any], said: str
) -> None:
    looked = await restored.look(restored.place(**changed), checks=(Check(sql="SELECT 1", expect="= 1"),))
    assert names(looked, "failed") == {"reachable"}
    assert names(looked, "could not verify") == {check.name for check in looked.checks} - {"reachable"}
    assert said in looked.checks[0].detail
    assert "s3cret" not in str(looked)
    assert PASSWORD not in str(looked)


@pytest.mark.parametrize(
    ("promised", "check"),
    [({"pg_major_version": "9"}, "version"), ({"postgis_enabled": True}, "postgis")],
)
async def test_another_server_than_promised_is_found(
    restored: Restored, promised: dict[str, Any], check: str
) -> None:
    assert names(await restored.look(**promised), "failed") == {check}


# In one message, and without a parenthesis that is not closed: only the protocol refuses it.
_TWO = "SELECT 1) AS a) AS b (first_of_row); COMMIT; SELECT 1, true FROM (SELECT 1 FROM (SELECT 1"


async def test_a_sql_check_says_whether_it_holds_and_never_what_a_row_holds(restored: Restored) -> None:
    restored.run(
        "CREATE FUNCTION buy() RETURNS int LANGUAGE sql AS 'INSERT INTO invoices VALUES (1) RETURNING 1'"
    )
    asked = {
        ("SELECT count(*) FROM customers;", "between 300 and 300"): ("passed", "between 300 and 300 holds"),
        ("TABLE customers LIMIT 1", "= 1"): ("passed", "= 1 holds"),
        ("SELECT date '2026-01-31' -- the last", ">= '2026-01-01'"): ("passed", ">= '2026-01-01' holds"),
        ("SELECT '{%s}' || E'\\'x'", "== '{%s}''x'"): ("passed", "== '{%s}''x' holds"),
        ("SELECT true", "= TRUE"): ("passed", "= TRUE holds"),
        ("SELECT count(*) FROM sales.orders", "> 300"): ("failed", "> 300 does not hold"),
        ("SELECT name FROM customers LIMIT 1", "= 'x'"): ("failed", "= 'x' does not hold"),
        ("SELECT NULL::int", "= 0"): ("failed", "= 0 does not hold"),
        ("SELECT id FROM customers WHERE id < 0", "> 0"): ("failed", "the query gave no row"),
        ("SELECT id FROM customers", "> 0"): ("failed", "the query gave more than one row"),
        ("SELECT count(*) FROM parcels", "> 0"): ("failed", "the query ended: undefined table"),
        ("SELECT name::int FROM customers", "> 0"): (
            "failed",
            "the query ended: invalid text representation",
        ),
        ("SELECT buy()", "> 0"): ("failed", "the query ended: read only sql transaction"),
        ("SELEC 1", "= 1"): ("could not verify", "the query ended: syntax error"),
        (_TWO, "= 1"): ("could not verify", "the query ended: syntax error"),
        ("SELECT size FROM pg_stat_file('.')", "= 1"): (
            "could not verify",
            "the query ended: insufficient privilege",
        ),
    }
    looked = await restored.look(checks=tuple(Check(sql=sql, expect=expect) for sql, expect in asked))
    said = [(check.verdict, check.detail) for check in looked.checks if check.name.startswith("sql ")]
    assert said == list(asked.values())
    assert "customer 1" not in str(looked)


async def test_what_the_deadline_leaves_no_time_for_is_not_verified(restored: Restored) -> None:
    looked = await restored.look(
        deadline_s=1, checks=(Check(sql="SELECT count(*) FROM pg_sleep(60)", expect="= 1"),)
    )
    assert not names(looked, "failed")
    assert [check.detail for check in looked.checks if check.name == "sql 1"] == [
        "the query ended: query canceled"  # by the server: nothing goes on there
    ]
    assert {"sql 1", "rows", "databases", "sequences", "amcheck"} <= names(looked, "could not verify")
    assert names(await restored.look(deadline_s=0), "failed") == {"reachable"}


async def test_the_driver_writes_nothing_of_its_own_when_a_signal_cuts_a_look_off(
    restored: Restored, caplog: pytest.LogCaptureFixture
) -> None:
    sleeping = Check(sql="SELECT count(*) FROM pg_sleep(60)", expect="= 1")
    with anyio.move_on_after(2) as scope:
        await restored.look(checks=(sleeping,))
    assert (scope.cancelled_caught, caplog.messages) == (True, [])

"""`python -m tests.reliability.damages`: what is planted in a restore is found, and healthy restores pass.

Clusters are real PostgreSQL servers of the emulated platform. A damage is planted by the platform (it
restores something else than asked for), or in the restored server before the drill looks at it. Drills run
as `reconcile drill`, and `reconcile drift` has to name each that failed. Then come drills of healthy
clusters, which grow between them, with schemas from a seed, and of healthy volumes: none of them may fail.
"""

import io
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    chdir,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import click
import psycopg
from psycopg import sql as quoting

from reconciler.cli.main import run
from reconciler.drills.checks import cluster as checks
from reconciler.drills.checks import verdicts
from reconciler.drills.checks.cluster import session
from reconciler.drills.checks.model import Place, Wanted
from reconciler.project.drill import _Drill
from reconciler.sandbox import catalog, postgres
from reconciler.sandbox.parts import cluster as cluster_part
from reconciler.sandbox.server import serving
from reconciler.sandbox.world import Transition
from tests.cli.conftest import project_at
from tests.cli.harness import TOKEN, Ran, Sandbox, cluster, volume
from tests.reliability.kills.verdict import live_clusters, live_volumes
from tests.reliability.proof import Tally

APP = "shop"
PASSWORD = "Drill-Me-1"
_DRILLS = 5  # of one healthy object
SOON_S, SHORT_S = 0.05, 600.0  # what takes less than the second on a platform takes the first
NEARLY_REAL = "x1.001"  # servers keep times of commits only where the clock is real

Planted = Callable[["Rig"], AbstractContextManager[None]]


class Rig:
    """A platform with real servers, and a project, whose verbs run in this process."""

    def __init__(self, url: str, root: Path) -> None:
        self.sandbox, self.project = Sandbox(url), project_at(root / "project", url)
        self.project.env |= {"RECONCILE_CAPABILITIES": "extended", "DRILL_PASSWORD": PASSWORD}
        self.scratch: Place | None = None

    def run(self, *arguments: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(self.project.env)
        try:
            with chdir(self.project.root), redirect_stdout(out), redirect_stderr(err):
                code = run([*arguments, "--output", "json"])
        finally:
            os.environ.clear()
            os.environ.update(before)
        return Ran(code, out.getvalue(), err.getvalue())

    def cluster(self, name: str, *drills: str) -> None:
        """Create a cluster with the role of the drills."""
        self.project.write(cluster(name) + "".join(drills), f"manifests/{name}.yaml")
        self.project.apply(*self.project.creating(f"PostgresCluster/{name}"))
        self.sql(name, f"CREATE ROLE drill LOGIN PASSWORD '{PASSWORD}'", database="postgres")
        self.sql(name, "GRANT pg_read_all_data TO drill", database="postgres")
        self.sql(name, "CREATE DATABASE app", database="postgres")

    def volume(self, name: str, *drills: str) -> None:
        self.project.write(volume(APP, name) + "".join(drills), f"manifests/{name}.yaml")
        self.project.apply()

    def snapshot(self, name: str) -> None:
        self.sandbox.call("POST", f"/v1/apps/{APP}/volumes/{self._volume(name)['id']}/snapshots")
        while any(each["status"] not in ("created", "failed") for each in self.sandbox.snapshots(APP)):
            pass

    def _volume(self, name: str) -> dict[str, Any]:
        (found,) = (
            each
            for each in self.sandbox.volumes(APP)
            if each["name"].startswith(name) and each["state"] == "created"
        )
        return found

    def shown(self, name: str) -> dict[str, Any]:
        """The cluster as the world shows it."""
        (found,) = (each for each in self.sandbox.clusters(name) if each["status"] == "ready")
        return found

    def edit(self, name: str, **fields: Any) -> None:
        self.sandbox.edit_cluster(self.shown(name)["id"], **fields)

    def back_up(self, name: str) -> str:
        """The id of a backup of what is there now."""
        id = self.shown(name)["id"]
        newest = self.shown(name)["backups"][-1]["id"]
        while _second() <= newest:
            pass  # there is one a second
        found: str = self.sandbox.call("POST", f"/_sandbox/world/clusters/{id}/backups")["id"]
        return found

    def sql(self, name: str, *statements: str, database: str = "app") -> None:
        for statement in statements:
            self.rows(name, statement, database)

    def rows(self, name: str, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        return rows(self.shown(name)["endpoints"]["primary"]["direct"]["port"], statement, database)

    def drill(self, name: str) -> Mapping[str, Any]:
        """The document of one drill, and `code`."""
        ran = self.run("drill", f"RestoreDrill/{name}")
        assert "drills" in (ran.json if ran.out else {}), f"{ran.out}{ran.err}"
        (found,) = ran.json["drills"]
        return {**found, "code": ran.code}


def _second() -> str:
    return time.strftime("%Y%m%d-%H%M%SF", time.gmtime())


def rows(port: int, statement: str, database: str) -> list[tuple[Any, ...]]:
    """Of a statement of the superuser."""
    url = f"postgresql://postgres:{TOKEN}@127.0.0.1:{port}/{database}"
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@contextmanager
def rigged(*, commit_times: bool) -> Iterator[Rig]:
    """`commit_times`: of servers that keep them."""
    soon = {
        key: Transition(SOON_S, then.then) if then.after_s <= SHORT_S else then
        for key, then in catalog.TRANSITIONS.items()
    }
    options: dict[str, Any] = {"profile": "extended", "postgres": "real", "apps": [{"name": APP}]}
    with (
        tempfile.TemporaryDirectory(prefix="damages-") as folder,
        patch.object(catalog, "TRANSITIONS", soon),
        serving(clock="real" if commit_times else NEARLY_REAL, **options) as url,
    ):
        rig = Rig(url, Path(folder))
        try:
            yield rig
        finally:
            rig.sandbox.close()


# --- where a damage is planted ---


def in_scratch(*statements: str, database: str = "app") -> Planted:
    """Statements that are run in the restored server before it is looked at."""

    def plant(port: int) -> None:
        for statement in statements:
            rows(port, statement, database)

    return before_the_look(plant)


def patched(owner: Any, name: str, changed: Callable[[Rig, Any], Any]) -> Planted:
    """`owner.name` is what `changed` makes of it."""

    @contextmanager
    def planted(rig: Rig) -> Iterator[None]:
        with patch.object(owner, name, changed(rig, getattr(owner, name))):
            yield

    return planted


def before_the_look(plant: Callable[[int], None]) -> Planted:
    """`plant` gets the port of the restored server."""

    def changed(rig: Rig, looking: Any) -> Any:
        async def look(place: Place, wanted: Wanted, *, deadline_s: float) -> Any:
            plant(place.port)
            return await looking(place, wanted, deadline_s=deadline_s)

        return look

    return patched(checks, "look", changed)


def restoring(other: Callable[[Rig], Mapping[str, Any]]) -> Planted:
    """The platform restores another backup than was asked for: with the `source` or `label` of `other`."""

    def changed(rig: Rig, restore: Any) -> Any:
        instead = other(rig)
        return lambda self, source, copy, label: restore(
            self, **{"source": source, "id": copy, "label": label, **instead}
        )

    return patched(postgres.Servers, "restore_backup", changed)


def restoring_moment(change: Callable[[float], float]) -> Planted:
    """The platform restores another moment than the one that was asked for."""
    return patched(
        postgres.Servers,
        "restore_moment",
        lambda rig, restore: lambda self, source, copy, at: restore(self, source, copy, change(at)),
    )


def unfinished(rig: Rig) -> AbstractContextManager[None]:
    """The restored server answers, but waits in the middle of its recovery."""
    paused = ("recovery_target_action=pause", "hot_standby=on")
    # A server in recovery refuses a new password.
    sql = patched(
        postgres.Servers,
        "_sql",
        lambda rig, tell: lambda self, of, text: None if "ALTER ROLE" in text else tell(self, of, text),
    )
    return both(patch.object(postgres, "_RECOVERY", paused), sql(rig))


def slow(rig: Rig) -> AbstractContextManager[None]:
    """It takes longer than the drill's `recover_within`."""

    def changed(rig: Rig, restore: Any) -> Any:
        def later(self: Any, *arguments: str) -> None:
            time.sleep(1.5)
            restore(self, *arguments)

        return later

    return patched(postgres.Servers, "restore_backup", changed)(rig)


@contextmanager
def both(one: AbstractContextManager[Any], other: AbstractContextManager[Any]) -> Iterator[None]:
    with one, other:
        yield


def switched(**switches: Any) -> Planted:
    @contextmanager
    def planted(rig: Rig) -> Iterator[None]:
        shown = rig.sandbox.call("GET", "/_sandbox/switches")
        before = {
            name: shown[name]["value"] if isinstance(shown[name], dict) else shown[name] for name in switches
        }
        rig.sandbox.switch(**switches)
        try:
            yield
        finally:
            rig.sandbox.switch(**before)

    return planted


def promised(**fields: Any) -> Planted:
    """The platform shows other fields of the cluster than its restored server has."""

    @contextmanager
    def planted(rig: Rig) -> Iterator[None]:
        before = {name: rig.shown(RICH)[name] for name in fields}
        rig.edit(RICH, **fields)
        try:
            yield
        finally:
            rig.edit(RICH, **before)

    return planted


def nothing(rig: Rig) -> AbstractContextManager[None]:
    return nullcontext()


def wrong_password(rig: Rig) -> AbstractContextManager[Any]:
    return patch.dict(rig.project.env, DRILL_PASSWORD="another")


def volume_edited(**fields: Any) -> Planted:
    """The restored volume is another one than was asked for."""

    def changed(rig: Rig, looking: Any) -> Any:
        async def live(self: _Drill, address: Any) -> Any:
            if address == self.address:
                rig.sandbox.edit_volume(rig._volume("drill-")["id"], **fields)
            return await looking(self, address)

        return live

    return patched(_Drill, "_live", changed)


def faulty(method: str, path: str, action: str, **details: Any) -> Planted:
    @contextmanager
    def planted(rig: Rig) -> Iterator[None]:
        rig.sandbox.fault(method, path, action, **details)
        try:
            yield
        finally:
            rig.sandbox.clear_faults()

    return planted


def _die(port: int) -> None:
    ((folder,),) = rows(port, "SHOW data_directory", "postgres")
    os.kill(int(Path(folder, "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
    while True:
        try:
            rows(port, "SELECT", "postgres")
        except psycopg.OperationalError:
            return


def _drop_tables(port: int) -> None:
    rows(port, "DROP SCHEMA shop CASCADE", "app")
    rows(port, "DROP TABLE sales", "reports")


def _drop_role(port: int) -> None:
    for name in ("app", "reports"):
        rows(port, "DROP OWNED BY drill", name)
    rows(port, "DROP ROLE drill", "postgres")


def _exchange(port: int) -> None:
    """The database `app` is another one of that name."""
    rows(port, "DROP DATABASE app WITH (FORCE)", "postgres")
    rows(port, "CREATE DATABASE app", "postgres")
    rows(port, "CREATE TABLE customers (id int); INSERT INTO customers VALUES (1)", "app")


# --- the damages ---

RICH, OTHER = "orders", "invoices"
DISK, UNUSABLE, BARE = "disk", "unusable", "bare"
MISSED = "NOT FOUND:"
NO_COPY = "no finished backup or snapshot"


def drill(name: str, of: str, more: str = "") -> str:
    """The manifest of a drill; of a cluster, it looks into the database `app`."""
    connect = (
        ", connect: {user: drill, password_from: {env: DRILL_PASSWORD}, database: app, sslmode: disable}"
        if of.startswith("Postgres")
        else ""
    )
    return (
        f"---\napiVersion: reconciler/v1\nkind: RestoreDrill\nmetadata: {{name: {name}}}\n"
        f"spec: {{of: {of}{connect}{more}}}\n"
    )


_CHECKS = """, checks: [
  {sql: "select count(*) from shop.orders", expect: "> 900"},
  {sql: "select total from shop.totals", expect: "> 0"},
  {sql: "select max(price) from shop.orders", expect: "> 0"}]"""
_AMCHECK = "DO $$ BEGIN CREATE EXTENSION amcheck; EXCEPTION WHEN undefined_file THEN NULL; END $$"
_COMPARED = """CREATE OR REPLACE FUNCTION shop.compared(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS
    $$ SELECT CASE WHEN $1 = $2 THEN 0 WHEN $1 {} $2 THEN 1 ELSE -1 END $$"""
_SCHEMA = (
    "CREATE SCHEMA shop",
    "CREATE EXTENSION pgcrypto",
    _AMCHECK,
    """DO $$ BEGIN GRANT EXECUTE ON FUNCTION bt_index_check(regclass) TO drill;
        EXCEPTION WHEN undefined_function THEN NULL; END $$""",
    _COMPARED.format(">"),
    """CREATE OPERATOR CLASS shop.fickle FOR TYPE int USING btree AS
        OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
        FUNCTION 1 shop.compared(int, int)""",
    """CREATE TABLE shop.customers (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL)""",
    """CREATE TABLE shop.orders (id serial PRIMARY KEY, customer int REFERENCES shop.customers, number int,
        price numeric CHECK (price >= 0))""",
    """CREATE COLLATION shop.german (provider = icu, locale = 'de')""",
    "CREATE TABLE shop.words (word text COLLATE shop.german PRIMARY KEY)",
    "INSERT INTO shop.words SELECT md5(n::text) FROM generate_series(1, 200) n",
    "INSERT INTO shop.customers (name) SELECT 'customer ' || n FROM generate_series(1, 100) n",
    "CREATE INDEX by_number ON shop.orders (number shop.fickle)",
    "CREATE MATERIALIZED VIEW shop.sums AS SELECT customer, sum(price) FROM shop.orders GROUP BY 1",
    "CREATE VIEW shop.totals AS SELECT sum(price) AS total FROM shop.orders",
)
_ROWS = (
    "INSERT INTO shop.orders (customer, number, price) SELECT 1 + n % 100, n, n FROM generate_series(1, {}) n"
)


class Old(NamedTuple):
    """A backup with less than half of the rows, by its id, and a moment right after it."""

    label: str
    at: float


def prepare(rig: Rig) -> Old:
    """Make everything that is damaged later."""
    of = f"PostgresCluster/{RICH}"
    rig.cluster(
        RICH,
        drill(RICH, of, _CHECKS),
        drill("moment", of, ", from: {before: 1s}"),
        drill("later", of, ", from: {before: 10m}"),
        drill("slow", of, ", recover_within: 1s"),
    )
    rig.sql(RICH, "CREATE DATABASE reports", database="postgres")
    rig.sql(RICH, "CREATE TABLE sales (month int); INSERT INTO sales VALUES (1)", database="reports")
    rig.sql(RICH, *_SCHEMA, _ROWS.format(300))
    old = Old(rig.back_up(RICH), time.time())
    rig.sql(RICH, _ROWS.format(700), "REFRESH MATERIALIZED VIEW shop.sums")
    rig.back_up(RICH)
    rig.cluster(OTHER)
    rig.sql(OTHER, "CREATE TABLE invoices (id int); INSERT INTO invoices VALUES (1)")
    rig.back_up(OTHER)
    for name in (DISK, UNUSABLE, BARE):
        rig.volume(name, drill(name, f"Volume/{APP}/{name}"))
    rig.snapshot(DISK)
    with switched(snapshot_outcome="failed")(rig):
        rig.snapshot(UNUSABLE)
    return old


@dataclass(frozen=True, slots=True)
class Damage:
    """`shown`: in the reason of the failed drill, or among what drift says."""

    planted: Planted
    shown: str
    drill: str = RICH


def damages(old: Old) -> Mapping[str, Damage]:
    def other(rig: Rig) -> Mapping[str, Any]:
        shown = rig.shown(OTHER)
        return {"source": shown["id"], "label": shown["backups"][-1]["id"]}

    def initial(rig: Rig) -> Mapping[str, Any]:
        return {"label": rig.shown(RICH)["backups"][0]["id"]}

    def older(rig: Rig) -> Mapping[str, Any]:
        return {"label": old.label}

    def older_than_a_new_one(rig: Rig) -> Mapping[str, Any]:
        rig.back_up(RICH)
        return {"label": old.label}

    return {
        "empty server restored": Damage(restoring(initial), "reachable: failed"),
        "all tables gone": Damage(before_the_look(_drop_tables), "contents: failed: empty"),
        "another cluster's backup restored": Damage(restoring(other), "missing"),
        "another database of that name": Damage(before_the_look(_exchange), "schema app.shop is missing"),
        "database gone that is connected to": Damage(
            in_scratch("DROP DATABASE app", database="postgres"), "reachable: failed"
        ),
        "another database gone": Damage(
            in_scratch("DROP DATABASE reports", database="postgres"), "database reports is missing"
        ),
        "schema gone": Damage(in_scratch("DROP SCHEMA shop CASCADE"), "schema app.shop is missing"),
        "table gone": Damage(in_scratch("DROP TABLE shop.words"), "shop.words is missing"),
        "table emptied": Damage(in_scratch("TRUNCATE shop.words"), "shop.words has lost all its rows"),
        "most rows gone": Damage(
            in_scratch("DELETE FROM shop.words WHERE word > '4'"), "shop.words has lost more than half"
        ),
        "an older backup restored": Damage(restoring(older), "shop.orders has lost more than half"),
        "an older backup restored, hardly other": Damage(
            lambda rig: both(
                restoring(older_than_a_new_one)(rig),
                both(
                    patch.object(verdicts, "SLACK", verdicts.SLACK / 600),
                    patch.object(verdicts, "FEW_ROWS", 10**6),
                ),
            ),
            "recovery point: failed",
        ),
        "no backup finished": Damage(
            faulty("GET", "/v1/postgres/*/backups", "status", status=200, body={"data": []}), NO_COPY
        ),
        "recovered to an earlier moment": Damage(
            restoring_moment(lambda at: old.at), "has lost more than half", "moment"
        ),
        "recovered to a later moment": Damage(
            lambda rig: both(
                patch.object(cluster_part, "_inside_window", lambda world, source, text: world.now - 600),
                restoring_moment(lambda at: at + 600)(rig),
            ),
            "recovery point: failed",
            "later",
        ),
        "still in recovery": Damage(unfinished, "recovered: failed", "moment"),
        "slow": Damage(slow, "but `recover_within` is", "slow"),
        "restored cluster ends failed": Damage(switched(cluster_outcome="failed"), "failed"),
        "restored cluster ends in error": Damage(switched(cluster_outcome="error"), "error"),
        "restore refused": Damage(
            faulty("POST", "/v1/postgres/*/restore", "status", status=422, body={"error": "no capacity"}),
            "no capacity",
        ),
        "server down": Damage(before_the_look(_die), "reachable: failed"),
        "wrong password": Damage(wrong_password, "reachable: failed"),
        "role gone": Damage(before_the_look(_drop_role), "reachable: failed"),
        "role without rights": Damage(in_scratch("REVOKE pg_read_all_data FROM drill"), "could not verify"),
        "role may not connect": Damage(
            in_scratch("REVOKE CONNECT ON DATABASE reports FROM public"), "could not verify"
        ),
        "rows hidden by a policy": Damage(
            in_scratch("ALTER TABLE shop.words ENABLE ROW LEVEL SECURITY"), "could not verify"
        ),
        "serial behind": Damage(
            in_scratch("SELECT setval('shop.orders_id_seq', 10)"), "orders_id_seq of shop.orders.id is behind"
        ),
        "identity behind": Damage(
            in_scratch("ALTER TABLE shop.customers ALTER id RESTART WITH 5"),
            "customers_id_seq of shop.customers.id is behind",
        ),
        "extension gone": Damage(in_scratch("DROP EXTENSION pgcrypto"), "app.pgcrypto is missing"),
        "extension without its files": Damage(promised(postgis_enabled=True), "postgis: failed"),
        "materialized view not populated": Damage(
            in_scratch("REFRESH MATERIALIZED VIEW shop.sums WITH NO DATA"), "shop.sums is not populated"
        ),
        "index not valid": Damage(
            in_scratch(
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'shop.by_number'::regclass"
            ),
            "by_number is not valid",
        ),
        "index damaged": Damage(in_scratch(_COMPARED.format("<")), "by_number: index corrupted"),
        "constraint not validated": Damage(
            in_scratch("ALTER TABLE shop.orders ADD CONSTRAINT cheap CHECK (price < 1) NOT VALID"),
            "cheap of",
        ),
        "collation of another version": Damage(
            in_scratch("UPDATE pg_collation SET collversion = '1' WHERE collname = 'german'"),
            "german has another version",
        ),
        "another version than promised": Damage(promised(pg_major_version="17"), "version: failed"),
        "check of the manifest fails": Damage(
            in_scratch("DELETE FROM shop.orders WHERE id > 800"), "sql 1: failed"
        ),
        "check of the manifest cannot run": Damage(
            in_scratch("ALTER TABLE shop.orders RENAME price TO prize"), "sql 3: failed"
        ),
        "check of the manifest takes too long": Damage(
            lambda rig: both(
                in_scratch(
                    "CREATE OR REPLACE VIEW shop.totals AS"
                    " SELECT sum(price) + length(pg_sleep(9)::text) AS total FROM shop.orders"
                )(rig),
                patch.object(session, "_STATEMENT_S", 1),
            ),
            "sql 2: could not verify",
        ),
        "smaller volume": Damage(volume_edited(size_gb=5), "size: failed", DISK),
        "volume gone": Damage(volume_edited(state="destroyed"), "not shown", DISK),
        "no snapshot is usable": Damage(nothing, NO_COPY, UNUSABLE),
        "no snapshot": Damage(nothing, NO_COPY, BARE),
    }


def found(rig: Rig, damage: Damage) -> str:
    """How it was told; what begins with `MISSED` when it was not."""
    with damage.planted(rig):
        ran = rig.drill(damage.drill)
    drift = rig.run("drift")
    told = {problem["code"]: problem["message"] for problem in drift.json["diagnostics"]}
    passed = ran.get("passed", False)
    finding, code = ("recovery-slower", 0) if passed else ("drill-failed", 1)
    bad = [check for check in ran.get("checks", ()) if check["verdict"] not in ("passed", "not configured")]
    said = [told.get(finding, "") if passed else f"{ran.get('why')}"]
    said += [f"{check['name']}: {check['verdict']}: {check['detail']}" for check in bad]
    shown = next((text for text in said if damage.shown in text), None)
    if shown is not None and (ran["code"], drift.code, finding in told) == (code, 2, True):
        return shown
    return f"{MISSED} {said}; drill {ran['code']}, drift {drift.code} {sorted(told)}"


# --- healthy restores ---

_NAMES = ("public", "Sales dept", "größe", 'a"b', "select")
_KEYS = (
    "id serial PRIMARY KEY",
    "id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    "id int GENERATED ALWAYS AS IDENTITY (INCREMENT BY -1 START WITH -1) PRIMARY KEY",
    "id smallserial",
    "id uuid DEFAULT gen_random_uuid() PRIMARY KEY",
    "id int",
)
_MORE = (
    "note text CHECK (length(note) < 100)",
    "doc jsonb DEFAULT '{}'",
    "twice int GENERATED ALWAYS AS (amount * 2) STORED",
    "at timestamptz DEFAULT now()",
    "tags text[]",
)
# {0} is the table, {1} its schema, {2} a number of its own.
_BESIDE = (
    "CREATE INDEX ON {0} (amount) WHERE amount > 10",
    "CREATE INDEX ON {0} USING brin (amount)",
    "CREATE INDEX ON {0} ((amount % 7))",
    "CREATE MATERIALIZED VIEW {1}.m{2} AS SELECT count(*) FROM {0}; CREATE UNIQUE INDEX ON {1}.m{2} (count)",
    "CREATE MATERIALIZED VIEW {1}.m{2} AS SELECT * FROM {0} WHERE false",
    "CREATE SEQUENCE {1}.s{2} CYCLE MAXVALUE 3; SELECT nextval('{1}.s{2}') FROM generate_series(1, 4)",
    "CREATE SEQUENCE {1}.s{2} INCREMENT BY -5",
    "CREATE UNLOGGED TABLE {1}.u{2} (id serial); INSERT INTO {1}.u{2} DEFAULT VALUES",
    "CREATE TABLE {1}.c{2} (more int) INHERITS ({0})",
    "CREATE TABLE {1}.p{2} (n int, amount int) PARTITION BY RANGE (n);"
    " CREATE TABLE {1}.p{2}a PARTITION OF {1}.p{2} FOR VALUES FROM (0) TO (50);"
    " CREATE TABLE {1}.p{2}b PARTITION OF {1}.p{2} DEFAULT;"
    " INSERT INTO {1}.p{2} SELECT n, n FROM generate_series(1, 100) n",
    "CREATE DOMAIN {1}.d{2} AS int CHECK (value > 0); CREATE TABLE {1}.t{2} (n {1}.d{2})",
    "CREATE TABLE {1}.empty{2} (id serial PRIMARY KEY, CHECK (id > 0))",
    "CREATE TABLE {1}.r{2} (n int); ALTER TABLE {1}.r{2} ENABLE ROW LEVEL SECURITY",
    "CREATE COLLATION {1}.l{2} (provider = icu, locale = 'sv');"
    " CREATE TABLE {1}.w{2} (w text COLLATE {1}.l{2})",
    "CREATE EXTENSION IF NOT EXISTS pgcrypto",
    "CREATE EXTENSION IF NOT EXISTS hstore; ALTER TABLE {0} ADD pairs hstore",
    "CREATE EXTENSION IF NOT EXISTS amcheck; GRANT EXECUTE ON FUNCTION bt_index_check(regclass) TO drill",
    "CREATE VIEW {1}.v{2} AS SELECT * FROM {0}",
    "SELECT lo_from_bytea(0, 'large'::bytea)",
)
# Of a table that is there: {0}.
_GROWTH = (
    "INSERT INTO {0} (amount) SELECT n FROM generate_series(1, 400) n",
    "INSERT INTO {0} (amount) VALUES (1)",
    "UPDATE {0} SET amount = 3 WHERE amount % 3 = 0",
    "DELETE FROM {0} WHERE amount % 5 = 0",
    "BEGIN; INSERT INTO {0} (amount) VALUES (1), (2); ROLLBACK",
    "ALTER TABLE {0} ADD COLUMN IF NOT EXISTS later text DEFAULT 'x'",
    "REINDEX TABLE {0}",
    "VACUUM FULL {0}",
    "ANALYZE {0}",
    "CLUSTER",
)


class Grower:
    """A database that changes as one in use does. The same seed makes the same changes."""

    def __init__(self, rig: Rig, name: str, seed: int) -> None:
        self.rig, self.name, self.random = rig, name, random.Random(seed)
        self.tables: list[str] = []
        self.made = 0

    def begin(self) -> None:
        if self.random.random() < 0.5:
            self.rig.sql(self.name, "CREATE DATABASE second", database="postgres")
            self.rig.sql(self.name, "CREATE TABLE few (n int); INSERT INTO few VALUES (1)", database="second")
        self.rig.sql(self.name, "ALTER ROLE drill BYPASSRLS", database="postgres")
        for schema in self.random.sample(_NAMES[1:], 2):
            self.rig.sql(self.name, f"CREATE SCHEMA {_quoted(schema)}")
            self.table(_quoted(schema))
        self.table("public")

    def table(self, schema: str) -> None:
        self.made += 1
        table = f"{schema}.{_quoted(f'Table {self.made}')}"
        columns = ("amount int", self.random.choice(_KEYS), *self.random.sample(_MORE, 2))
        self.rig.sql(self.name, f"CREATE TABLE {table} ({', '.join(columns)})")
        self.rig.sql(self.name, f"INSERT INTO {table} (amount) SELECT n FROM generate_series(1, 300) n")
        self.tables.append(table)
        for number, statement in enumerate(self.random.sample(_BESIDE, 4)):
            for part in statement.format(table, schema, f"{self.made}x{number}").split(";"):
                self.rig.sql(self.name, part)

    def grow(self) -> None:
        for statement in self.random.sample(_GROWTH, 4):
            self.rig.sql(self.name, statement.format(self.random.choice(self.tables)))
        if self.random.random() < 0.4:
            self.table(self.random.choice(self.tables).rpartition(".")[0])


def _quoted(name: str) -> str:
    return quoting.Identifier(name).as_string(None)


def drill_healthy(drills: int, seed: int) -> Tally:
    """Drill what is healthy so often, one in five times a volume; clusters and volumes grow between."""
    tally = Tally()
    for commit_times in (True, False):
        with rigged(commit_times=commit_times) as rig:
            _drill_clusters(rig, (drills - drills // 5 + commit_times) // 2, seed + commit_times, tally)
            _drill_volumes(rig, (drills // 5 + (not commit_times)) // 2, tally)
            _nothing_left(rig, tally)
            drift = rig.run("drift")
            if drift.code:
                tally.violations.append(f"drift ends with {drift.code}: {drift.out}{drift.err}")
    return tally


def _drill_clusters(rig: Rig, drills: int, seed: int, tally: Tally) -> None:
    """Five drills of each cluster: of backups, and now and then of a moment."""
    for number in range(0, drills, _DRILLS):
        name = f"cluster{number}"
        of = f"PostgresCluster/{name}"
        rig.cluster(name, drill(name, of), drill(f"{name}-moment", of, ", from: {before: 1s}"))
        grower = Grower(rig, name, seed + number)
        grower.begin()
        for turn in range(min(_DRILLS, drills - number)):
            rig.back_up(name)
            if turn == 1:  # no moment may be before the first backup with the role of the drills
                time.sleep(2)
            if turn == 2:  # one that failed is no reason against the one before it
                with patch.object(postgres.Servers, "back_up", lambda *_: None):
                    rig.back_up(name)
            _healthy(rig, name if turn % 3 != 1 else f"{name}-moment", tally)
            grower.grow()


def _drill_volumes(rig: Rig, drills: int, tally: Tally) -> None:
    for number in range(0, drills, _DRILLS):
        name = f"disk{number}"
        rig.volume(name, drill(name, f"Volume/{APP}/{name}"))
        for turn in range(min(_DRILLS, drills - number)):
            rig.snapshot(name)
            _healthy(rig, name, tally)
            text = volume(APP, name, f"region: ams, size_gb: {12 + turn}") + drill(
                name, f"Volume/{APP}/{name}"
            )
            rig.project.write(text, f"manifests/{name}.yaml")
            rig.project.apply()


# --- the command ---


def find_damages(chosen: Sequence[str]) -> Tally:
    """Plant each damage (those whose names are `chosen`, or all), and see that a drill finds it."""
    tally = Tally()
    with rigged(commit_times=True) as rig:
        every = damages(prepare(rig))
        kinds = [damage for name, damage in every.items() if name in chosen or not chosen]
        for name in sorted({damage.drill for damage in kinds} - {UNUSABLE, BARE, "later", "slow"}):
            _healthy(rig, name, tally)
        for name, damage in every.items():
            if name in chosen or not chosen:
                said = found(rig, damage)
                tally.counts["damages"] += 1
                click.echo(f"{name:<40}{said}"[:180])
                if said.startswith(MISSED):
                    tally.violations.append(f"{name}: {said}")
        _healthy(rig, RICH, tally)
        _nothing_left(rig, tally)
    return tally


def _healthy(rig: Rig, name: str, tally: Tally) -> None:
    ran = rig.drill(name)
    tally.counts["healthy"] += 1
    if ran["code"] != 0 or not ran["passed"]:
        tally.violations.append(f"a healthy drill {name}: {ran.get('why')} {ran}")


def _nothing_left(rig: Rig, tally: Tally) -> None:
    world = rig.sandbox.call("GET", "/_sandbox/world")
    live = {**live_clusters(world), **live_volumes(world)}
    tally.violations += [
        f"{each['name']} is left" for each in live.values() if each["name"].startswith("drill-")
    ]


@click.command()
@click.option("--only", multiple=True, help="This damage. Without it, all.")
@click.option("--healthy", default=50, show_default=True, help="So many drills of healthy objects.")
@click.option("--seed", default=1, show_default=True, help="Of the healthy clusters.")
def command(only: Sequence[str], healthy: int, seed: int) -> None:
    """Plant, drill, and judge. Exits with 1 when a damage was not found, or a healthy drill failed."""
    began_s = time.monotonic()
    tallies = (find_damages(only), drill_healthy(healthy, seed))
    wrong = [violation for tally in tallies for violation in tally.violations]
    for violation in wrong:
        click.echo(violation)
    damaged, good = (sum(tally.counts[name] for tally in tallies) for name in ("damages", "healthy"))
    click.echo(
        f"{damaged} damages, {good} healthy drills: {len(wrong)} wrong; {time.monotonic() - began_s:.0f} s"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    command()

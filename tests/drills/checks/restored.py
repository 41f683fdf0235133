"""What stands for a restored cluster: a real server, in which a test plants what a bad restore leaves."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reconciler.drills.checks.cluster import look
from reconciler.drills.checks.model import Looked, Place, Wanted
from reconciler.kinds.source import ValueSource
from reconciler.policies.drill import Connect
from reconciler.secrets.sensitive import Sensitive
from tests.providers.postgres import Postgres

ROLE, PASSWORD, APP, MODEL = "drill", "s3cret-of-the-drill", "app", "model"
PAGE_BYTES = 8192

SHOP = """
CREATE EXTENSION pg_trgm;
CREATE SCHEMA sales;
CREATE COLLATION english (provider = icu, locale = 'en');
CREATE TABLE customers (id serial PRIMARY KEY, name text COLLATE english UNIQUE);
INSERT INTO customers (name) SELECT 'customer ' || n FROM generate_series(1, 300) n;
CREATE TABLE sales.orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer int REFERENCES customers,
    amount numeric CHECK (amount > 0)
);
INSERT INTO sales.orders (customer, amount) SELECT n, n FROM generate_series(1, 300) n;
CREATE SEQUENCE numbers;
CREATE SEQUENCE downward INCREMENT -1;
CREATE TABLE invoices (number int DEFAULT nextval('numbers'), below int DEFAULT nextval('downward'));
INSERT INTO invoices SELECT FROM generate_series(1, 5);
CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) FROM sales.orders GROUP BY 1;
CREATE INDEX amounts ON sales.orders (amount);
"""


@dataclass
class Restored:
    """`postgres`: as its superuser, in the database `postgres`."""

    postgres: Postgres

    def prepare(self) -> None:
        """Make the role, and the template of `app`, which no look sees."""
        self.postgres.rows(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}' IN ROLE pg_read_all_data")
        self.postgres.rows(f"CREATE DATABASE {MODEL} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en'")
        self.run(SHOP, MODEL)
        self.postgres.rows(f"ALTER DATABASE {MODEL} IS_TEMPLATE true")

    def begin(self) -> None:
        self.postgres.rows(f"CREATE DATABASE {APP} TEMPLATE {MODEL} STRATEGY file_copy")

    def end(self) -> None:
        """Drop all that a test may have made."""
        names = "SELECT datname FROM pg_database WHERE datname <> 'postgres' AND NOT datistemplate"
        for (name,) in self.postgres.rows(names):
            self.postgres.rows(f'DROP DATABASE "{name}" WITH (FORCE)')

    def run(self, statements: str, database: str = APP) -> list[tuple[Any, ...]]:
        """As the superuser."""
        return Postgres(f"{self.postgres.url.rpartition('/')[0]}/{database}").rows(statements)

    def place(self, **changed: Any) -> Place:
        url = urlsplit(self.postgres.url)
        assert url.hostname
        assert url.port
        given = {"password": PASSWORD, "database": APP, "port": url.port, **changed}
        connect = Connect(
            user=ROLE,
            password_from=ValueSource(env="DRILL_PASSWORD"),
            database=given["database"],
            sslmode="disable",
        )
        return Place(url.hostname, given["port"], connect, Sensitive(given["password"]))

    async def look(self, place: Place | None = None, *, deadline_s: float = 60, **wanted: Any) -> Looked:
        asked = Wanted(**{"pg_major_version": None, "postgis_enabled": None, "point": None, **wanted})
        return await look(place or self.place(), asked, deadline_s=deadline_s)

    def damage(self, relation: str) -> None:
        """Overwrite the first page of a relation of `app` that nobody has read: so it is in no memory."""
        ((folder, path),) = self.run(
            f"SELECT current_setting('data_directory'), pg_relation_filepath('{relation}')"
        )
        with (Path(folder) / path).open("r+b") as file:
            file.write(os.urandom(PAGE_BYTES))


def names(looked: Looked, verdict: str) -> set[str]:
    return {check.name for check in looked.checks if check.verdict == verdict}

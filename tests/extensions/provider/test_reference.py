"""The reference provider over a real PostgreSQL server, called over HTTP."""

import psycopg

from tests.extensions.postgres import Postgres
from tests.extensions.serve import Provider


def test_config_holds_a_connection_string_that_connects(provider: Provider, postgres: Postgres) -> None:
    reply = provider.platform.provision("connects")
    assert reply.status == 201, reply.body
    with psycopg.connect(reply.json["config"]["DATABASE_URL"]) as connection:
        connection.execute("CREATE TABLE orders (id int)")
        connection.execute("INSERT INTO orders VALUES (1)")
        assert connection.execute("SELECT id FROM orders").fetchall() == [(1,)]

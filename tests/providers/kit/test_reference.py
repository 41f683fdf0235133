"""The reference provider over a real PostgreSQL server, called over HTTP."""

import psycopg
import pytest

from tests.providers.postgres import Postgres
from tests.providers.serve import Provider


def _address(provider: Provider, id: str) -> str:
    reply = provider.platform.provision(id)
    assert reply.status == 201, reply.body
    found: str = reply.json["config"]["DATABASE_URL"]
    return found


def _name(address: str) -> str:
    return address.rpartition("/")[2]


def test_config_holds_a_connection_string_that_connects(provider: Provider) -> None:
    with psycopg.connect(_address(provider, "connects")) as connection:
        connection.execute("CREATE TABLE orders (id int)")
        connection.execute("INSERT INTO orders VALUES (1)")
        assert connection.execute("SELECT id FROM orders").fetchall() == [(1,)]


def test_one_database_cannot_be_entered_with_the_password_of_another(provider: Provider) -> None:
    one, other = _address(provider, "one"), _address(provider, "other")
    with pytest.raises(psycopg.OperationalError, match="permission denied"):
        psycopg.connect(f"{one.rpartition('/')[0]}/{_name(other)}")


def test_an_update_changes_how_many_may_connect(provider: Provider, postgres: Postgres) -> None:
    name = _name(_address(provider, "grows"))
    reply = provider.platform.call("PATCH", "/extensions/grows", {"read_regions": ["fra", "nrt"]})
    assert (reply.status, reply.json["read_regions"]) == (200, ["fra", "nrt"])
    ((most,),) = postgres.rows("SELECT current_setting('max_connections')::int")
    limits = postgres.rows("SELECT rolconnlimit FROM pg_roles WHERE rolname = %s", name)
    assert limits == [(min(60, most // 4),)]


def test_no_order_gets_more_than_a_share_of_the_servers_connections(
    provider: Provider, postgres: Postgres
) -> None:
    name = _name(_address(provider, "greedy"))
    regions = [f"r{number}" for number in range(200)]
    assert provider.platform.call("PATCH", "/extensions/greedy", {"read_regions": regions}).status == 200
    ((most,),) = postgres.rows("SELECT current_setting('max_connections')::int")
    assert postgres.rows("SELECT rolconnlimit FROM pg_roles WHERE rolname = %s", name) == [(most // 4,)]


def test_a_tenant_in_template1_does_not_block_the_next_order(provider: Provider, postgres: Postgres) -> None:
    mine = _address(provider, "sits-in-template")
    with psycopg.connect(f"{mine.rpartition('/')[0]}/template1"):
        assert _address(provider, "next")


def test_no_tenant_reads_the_orders_of_others(provider: Provider, postgres: Postgres) -> None:
    mine = _address(provider, "reads-comments")
    other = _name(_address(provider, "secret-order-id"))
    with psycopg.connect(mine) as connection:
        comments = connection.execute("SELECT description FROM pg_shdescription").fetchall()
        seen = str(comments)
    assert "extension provider" in seen
    assert "secret-order-id" not in seen
    # What an earlier version wrote is recognised, and replaced.
    postgres.rows(f"COMMENT ON ROLE {other} IS 'extension provider databases: secret-order-id'")
    assert _name(_address(provider, "secret-order-id")) == other
    assert "secret-order-id" not in str(postgres.rows("SELECT description FROM pg_shdescription"))


def test_a_role_that_may_not_log_in_is_asleep(provider: Provider, postgres: Postgres) -> None:
    name = _name(_address(provider, "sleeps"))
    for ability, status in (("NOLOGIN", "sleeping"), ("LOGIN", "ready")):
        postgres.rows(f"ALTER ROLE {name} {ability}")
        shown = provider.platform.call("GET", "/extensions/sleeps").json
        assert (shown["status"], shown["plan"]) == (status, "standard")


def test_deleting_takes_database_and_role_and_whoever_is_connected(
    provider: Provider, postgres: Postgres
) -> None:
    address = _address(provider, "goes")
    with psycopg.connect(address) as connection:
        assert provider.platform.call("DELETE", "/extensions/goes").status == 200
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert _name(address) not in postgres.databases() | postgres.roles()
    assert provider.platform.call("DELETE", "/extensions/goes").status == 404


@pytest.mark.parametrize("theirs", ["role", "database"])
def test_what_the_provider_did_not_make_is_left_alone(
    provider: Provider, postgres: Postgres, theirs: str
) -> None:
    name = _name(_address(provider, f"their-{theirs}"))
    assert provider.platform.call("DELETE", f"/extensions/their-{theirs}").status == 200
    postgres.rows(f"CREATE {theirs} {name}")
    assert provider.platform.provision(f"their-{theirs}").status == 422
    provider.platform.call("DELETE", f"/extensions/their-{theirs}")
    assert name in postgres.databases() | postgres.roles()
    postgres.rows(f"DROP {theirs} {name}")


def test_costs_name_every_resource(provider: Provider) -> None:
    _address(provider, "costs")
    costs = {cost["id"]: cost for cost in provider.platform.call("GET", "/costs").json["costs"]}
    assert float(costs["costs"]["amount"]) > 5
    assert costs["costs"]["currency"] == "USD"


def test_no_password_reaches_the_log_of_either(provider: Provider) -> None:
    password = _address(provider, "quiet").partition(":")[2].partition(":")[2].partition("@")[0]
    assert len(password) == 43
    assert password not in provider.log.read_text()

"""A state that cannot be used: each cause is told with the URL and what to type, and nothing is sent.

No output and no file ever holds the password of the URL or a secret of the environment.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.certificates import greeting
from tests.cli.harness import Project, Ran, Sandbox, volume
from tests.providers.postgres import Postgres
from tests.state.objects.conftest import S3, make_s3, moto_server, s3  # noqa: F401 - fixtures
from tests.state.objects.proxy import HttpFault, proxying
from tests.state.postgres.conftest import database, postgres  # noqa: F401 - fixtures

PASSWORD, ENCODED = "hunter2/p@ss", "hunter2%2Fp%40ss"
SECRETS = ("hunter2", "hunter3")


@dataclass(frozen=True)
class Place:
    """Where a state should be, and what the environment holds for it."""

    url: str
    env: Mapping[str, str]


class Places:
    """Makes places of which something is wrong, on servers that run."""

    def __init__(self, server: Postgres, bucket: S3, stack: ExitStack, folder: Path) -> None:
        self.database, self.s3, self.stack, self.folder = server, bucket, stack, folder
        self.address, _, self.name = server.url.rpartition("@")[2].partition("/")

    def role(self, *options: str) -> str:
        """A role with that password, which owns nothing."""
        name = f"ann_{self.name}"
        self.database.rows(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' {' '.join(options)}")
        return name

    def postgres(
        self,
        *,
        role: str = "admin",
        password: str = ENCODED,
        address: str = "",
        name: str = "",
        query: str = "",
    ) -> Place:
        where = f"{address or self.address}/{name or self.name}{query}"
        return Place(f"postgresql://{role}:{password}@{where}", {})

    def s3_at(self, endpoint: str = "", *, url: str = "", **env: str) -> Place:
        secrets = {"AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_SESSION_TOKEN": "hunter3"}
        known = {**self.s3.variables, **secrets, **env}
        if endpoint:
            known["AWS_ENDPOINT_URL"] = endpoint
        return Place(url or self.s3.url, {name: value for name, value in known.items() if value})

    def s3_that_says(self, fault: HttpFault) -> Place:
        proxy = self.stack.enter_context(proxying(self.s3.endpoint))
        proxy.choose = lambda method, path: fault
        return self.s3_at(proxy.url)

    def certificate(self, name: str, *, as_postgres: bool = False) -> tuple[int, Path]:
        tls = self.stack.enter_context(greeting(name, self.folder / "tls", as_postgres=as_postgres))
        return tls.port, tls.authority

    def postgres_with_certificate(self, name: str, *, known: bool) -> Place:
        port, authority = self.certificate(name, as_postgres=True)
        query = f"?sslmode=verify-full&sslrootcert={authority if known else 'system'}"
        return self.postgres(address=f"localhost:{port}", query=query)

    def s3_with_certificate(self, name: str, *, known: bool) -> Place:
        port, authority = self.certificate(name)
        return self.s3_at(f"https://localhost:{port}", SSL_CERT_FILE=str(authority) if known else "")


CASES: Mapping[str, tuple[Callable[[Places], Place], str, str]] = {
    "postgres-unreachable": (
        lambda at: at.postgres(address="127.0.0.1:1"),
        "cannot be reached: connection failed",
        "check the address in the URL, the server and the network",
    ),
    "postgres-wrong-password": (
        lambda at: at.postgres(role=at.role(), password="hunter2x"),
        "password authentication failed",
        "check the user and the password (PGUSER and PGPASSWORD, ~/.pgpass or the URL): it may have expired",
    ),
    "postgres-expired-password": (
        lambda at: at.postgres(role=at.role("VALID UNTIL '2001-01-01'")),
        "password authentication failed",
        "it may have expired",
    ),
    "postgres-no-database": (
        lambda at: at.postgres(role=at.role(), name="missing"),
        'database "missing" does not exist',
        "check the URL, or make the database with CREATE DATABASE; this program makes none",
    ),
    "postgres-without-tls": (
        lambda at: at.postgres(role=at.role(), query="?sslmode=require"),
        "server does not support SSL, but SSL was required",
        "let the server and PGSSLMODE, or ?sslmode= in the URL, agree on TLS",
    ),
    "postgres-certificate-of-another": (
        lambda at: at.postgres_with_certificate("db.example.com", known=True),
        'server certificate for "db.example.com" does not match host name "localhost"',
        "connect by the name that is in the server's certificate",
    ),
    "postgres-certificate-of-a-stranger": (
        lambda at: at.postgres_with_certificate("localhost", known=False),
        "certificate verify failed",
        "name the authority that signed it (PGSSLROOTCERT, or ?sslrootcert=system in the URL)",
    ),
    "s3-unreachable": (
        lambda at: at.s3_at("http://127.0.0.1:1"),
        "cannot be reached: no connection to the store",
        "check the network, and the address in `state.endpoint` or AWS_ENDPOINT_URL",
    ),
    "s3-no-url": (
        lambda at: at.s3_at("127.0.0.1:9000"),
        "is not a URL",
        "write it as https://HOST in `state.endpoint` or AWS_ENDPOINT",
    ),
    "s3-wrong-key": (
        lambda at: at.s3_that_says("InvalidAccessKeyId"),
        "does not accept these credentials",
        "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    "s3-expired-token": (
        lambda at: at.s3_that_says("ExpiredToken"),
        "the credentials for the state s3://states/team/",
        "get new ones",
    ),
    "s3-no-right": (
        lambda at: at.s3_that_says("AccessDenied"),
        "these credentials may not read the state",
        "s3:GetObject and s3:ListBucket",
    ),
    "s3-no-bucket": (
        lambda at: at.s3_at(url="s3://missing/team"),
        "the bucket of the state s3://missing/team does not exist",
        "check the URL; this program makes no buckets",
    ),
    "s3-another-region": (
        lambda at: at.s3_that_says("PermanentRedirect"),
        "the bucket is in another region",
        "set AWS_REGION",
    ),
    "s3-wrong-clock": (
        lambda at: at.s3_that_says("RequestTimeTooSkewed"),
        "this machine's clock is wrong",
        "set it from the network",
    ),
    "s3-http-not-allowed": (
        lambda at: at.s3_at(AWS_ALLOW_HTTP=""),
        "its address begins with http://, which is not encrypted",
        "use https://, or set AWS_ALLOW_HTTP=true",
    ),
    "s3-without-tls": (
        lambda at: at.s3_at(at.s3.endpoint.replace("http:", "https:")),
        "it does not speak TLS",
        "set AWS_ALLOW_HTTP=true",
    ),
    "s3-certificate-of-another": (
        lambda at: at.s3_with_certificate("s3.example.com", known=True),
        "its certificate is not accepted",
        "use the host name that it is for",
    ),
    "s3-certificate-of-a-stranger": (
        lambda at: at.s3_with_certificate("localhost", known=False),
        "its certificate is not accepted",
        "name the authority that signed it in SSL_CERT_FILE",
    ),
}


@pytest.fixture
def places(
    database: Postgres,  # noqa: F811 - a fixture
    s3: S3,  # noqa: F811 - a fixture
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Places]:
    with ExitStack() as stack:
        yield Places(database, s3, stack, tmp_path_factory.mktemp("places"))


def no_secrets(project: Project, *told: Ran) -> None:
    for ran in told:
        assert not [secret for secret in SECRETS if secret in ran.out + ran.err]
    for file in project.root.rglob("*"):
        if file.is_file() and file.name != "reconcile.yaml":
            assert not [secret for secret in SECRETS if secret.encode() in file.read_bytes()], file


@pytest.mark.parametrize("case", CASES)
def test_a_state_that_cannot_be_used_is_told_and_nothing_is_sent(
    case: str, places: Places, project: Project, sandbox: Sandbox, app: str
) -> None:
    make, message, help = CASES[case]
    place = make(places)
    project.write(f"state: '{place.url}'\n", "reconcile.yaml")
    project.write(volume(app))
    applied = project.run("apply", "--auto-approve", code=1, env=place.env)
    assert message in applied.err
    assert help in applied.err.partition("  = help: ")[2]
    no_secrets(project, applied)
    assert sandbox.mutations_of(app) == []


@pytest.mark.parametrize("case", ["postgres-wrong-password", "s3-wrong-key"])
def test_no_verb_and_no_log_tells_a_secret(case: str, places: Places, project: Project, app: str) -> None:
    make, message, _ = CASES[case]
    place = make(places)
    project.write(f"state: '{place.url}'\n", "reconcile.yaml")
    project.write(volume(app))
    told = [
        project.json("plan", code=1, env=place.env),
        project.run("-vv", "drift", code=1, env=place.env),
        project.run("state", "init", code=1, env=place.env),
        project.run("doctor", "--probe-state", code=1, env=place.env),
        project.run("history", code=1, env=place.env),
        project.run("doctor", code=1, env=place.env),
    ]
    for ran in told:
        assert message in ran.out + ran.err
    no_secrets(project, *told)


@pytest.mark.parametrize(
    ("url", "message", "help"),
    [
        (
            "postgress://ann:hunter2@db/state",
            "no state backend for scheme `postgress`",
            "did you mean `postgres`?",
        ),
        ("S3://team/shop", "no state backend for scheme `S3`", "did you mean `s3`?"),
        ("gcs://team/shop", "no state backend for scheme `gcs`", "did you mean `gs`?"),
        ("mysql://ann:hunter2@db/state", "no state backend for scheme `mysql`", "backends are sqlite:PATH"),
        ("hunter2:ann@db/state", "the state's URL does not begin with a scheme", "backends are sqlite:PATH"),
        ("state.db", "the state's URL does not begin with a scheme", "backends are sqlite:PATH"),
        ("sqlite:", "the state's URL has no path", "backends are sqlite:PATH"),
        ("sqlite:/", "the state's URL has no path", "backends are sqlite:PATH"),
        (
            "postgresql:/ann:hunter2@db/state",
            "the state's URL is not one of PostgreSQL",
            "leave the password to",
        ),
        ("s3:/team/shop", "the state's URL names no place in an object store", "write s3://BUCKET/PREFIX"),
        ("s3://key:hunter2@team/shop", "the state's URL names no place", "write s3://BUCKET/PREFIX"),
        ("s3://team/../shop", "the state's URL names no place", "write s3://BUCKET/PREFIX"),
        ("s3://my team/shop", "the state's URL names no place", "write s3://BUCKET/PREFIX"),
    ],
)
def test_a_url_with_a_typo_is_told_without_what_may_be_a_password(
    url: str, message: str, help: str, project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    applied = project.run("apply", "--auto-approve", code=1, env={"RECONCILE_STATE": url})
    assert message in applied.err
    assert help in applied.err
    no_secrets(project, applied)
    assert sandbox.mutations_of(app) == []

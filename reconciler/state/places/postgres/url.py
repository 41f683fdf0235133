"""The URL of a state in PostgreSQL: what libpq is told, and what people may see.

libpq's own variables (`PGPASSWORD`, `PGSSLMODE`, …), its password file and its services count where the
URL says nothing.
"""

import re
from dataclasses import dataclass, field

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from reconciler.core.errors import StoreError
from reconciler.core.state_url import shown_url

# With these, a server that does not answer any more is noticed.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "fallback_application_name": "reconcile",
    "client_encoding": "utf8",
}
_HIDDEN = ("password", "sslpassword")
_PORTS = re.compile(r"[\d,]*")


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """`conninfo`: for libpq. `shown`: the URL as people may see it. `hidden`: what no text may repeat."""

    conninfo: str = field(repr=False)
    shown: str
    hidden: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, url: str) -> "DatabaseUrl":
        """Raises StoreError for a URL that libpq would not take, or would take for another one."""
        # Its own messages repeat what it took for a port or a host, such as half of a password.
        outside = url.partition("?")[0].partition("//")[2]
        authority, _, database = outside.partition("/")
        if authority.count("@") > 1 or "@" in database:
            raise _unreadable()
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error:
            raise _unreadable() from None
        if not _PORTS.fullmatch(str(given.get("port") or "")):
            raise _unreadable()
        known = {
            option.keyword.decode(): option.val.decode()
            for option in pq.Conninfo.get_defaults()
            if option.val is not None
        }
        all_known = {**known, **{name: str(value) for name, value in given.items() if value is not None}}
        missing = {name: value for name, value in _DEFAULTS.items() if name not in all_known}
        return cls(
            make_conninfo(url, **missing),
            shown_url(url),
            tuple(all_known[name] for name in _HIDDEN if all_known.get(name)),
        )

    def without_secrets(self, text: str) -> str:
        """`text` with *** for each secret of the URL and of libpq's variables."""
        for secret in self.hidden:
            text = text.replace(secret, "***")
        return text


def _unreadable() -> StoreError:
    return StoreError(
        "the state's URL is not one of PostgreSQL",
        help="it looks like postgresql://USER@HOST:PORT/DATABASE; in a name or a password, write `@` as %40, "
        "`/` as %2F, `?` as %3F and `:` as %3A, or leave the password to PGPASSWORD",
    )

"""Looks into a restored cluster, read-only: the built-in checks, and the SQL checks of a manifest.

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

from ipaddress import ip_address

from reconciler.core.errors import ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.drills.checks.model import Checked, Facts, Looked, Place, SqlCheck, Wanted
from reconciler.policies.expect import parse_expect

__all__ = ["Checked", "Facts", "Looked", "Place", "SqlCheck", "Wanted", "look_into", "parse_expect"]


async def look_into(place: Place, wanted: Wanted, *, deadline_s: float) -> Looked:
    """Return a verdict for each check, in order; what `deadline_s` left no time for could not be verified.

    No trouble of the cluster raises. Raises ReconcilerError for a missing extra, and for `sslmode: disable`
    to another machine; ValueError for an `expect` that is not a comparison.
    """
    require_extra("postgres", "a drill that looks into a cluster")
    if place.sslmode == "disable" and not _is_loopback(place.host):
        raise ReconcilerError(
            f"`sslmode: disable` would send the password to {place.host} in the clear",
            help="set `sslmode: require`; `disable` is for loopback addresses",
        )
    from reconciler.drills.checks.cluster import look

    return await look(place, wanted, deadline_s)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False

"""A query of the manifest, compared by the server: no value of a row leaves it."""

import psycopg

from reconciler.drills.checks.cluster.session import FAILURES, Session, is_unseen, why
from reconciler.drills.checks.model import Checked, SqlCheck
from reconciler.policies.expect import parse_expect


async def run_check(session: Session, name: str, check: SqlCheck) -> Checked:
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


def _compared(check: SqlCheck) -> str:
    """A query for the number of rows, 2 at most, and whether the comparison holds for them all."""
    return (
        f"SELECT count(*), bool_and(first_of_row {parse_expect(check.expect)})"
        f" FROM (SELECT * FROM (\n{check.sql.strip().removesuffix(';')}\n) AS q LIMIT 2) AS q (first_of_row)"
    )

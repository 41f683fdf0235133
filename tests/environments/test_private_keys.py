"""A private key that was pasted where the name of a file belongs."""

import pytest

from tests.inprocess import Command, secret

KEY = "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQ"


@pytest.mark.parametrize("source", ["age", "file"])
@pytest.mark.parametrize("verb", ["validate", "plan --sandbox"])
def test_a_private_key_is_refused_and_never_shown(reconcile: Command, source: str, verb: str) -> None:
    reconcile.write("manifests/a.yaml", secret("API_KEY", f"{source}: {KEY}"))
    ended = reconcile(verb, code=1)
    assert "error[secret-literal]" in ended.err
    assert KEY[:20] not in ended.out + ended.err

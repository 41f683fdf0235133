import itertools

import pytest

from reconciler.core.model import Address
from reconciler.secrets.fingerprint import fingerprint
from reconciler.secrets.sensitive import Sensitive

KEY = bytes(range(32))
PASSWORD = Address("Secret", "PG_PASSWORD", "shop")


def test_a_fingerprint_never_changes_between_versions() -> None:
    """Stored ones must keep fitting: otherwise every secret would be set again. Computed with openssl."""
    expected = "13367d333e9993e389678de1aa4655263c4738f6f0e5c73cd49158b2fb3f3fb6"
    assert fingerprint(KEY, PASSWORD, Sensitive("hunter2")) == expected


def test_key_address_and_value_all_count() -> None:
    addresses = [PASSWORD, Address("Secret", "PG_PASSWORD", "blog"), Address("Secret", "PG_PASSWOR", "shop")]
    prints = [
        fingerprint(key, address, Sensitive(value))
        for key, address, value in itertools.product(
            [KEY, KEY[::-1]], addresses, ["", "hunter2", "Dhunter2", "\0hunter2"]
        )
    ]
    assert len(set(prints)) == len(prints) == 24


@pytest.mark.parametrize("key", [b"", b"short", bytes(33)])
def test_a_key_of_another_length_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        fingerprint(key, PASSWORD, Sensitive("hunter2"))

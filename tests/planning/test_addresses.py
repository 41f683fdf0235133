"""Addresses: as text and back."""

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reconciler
from reconciler.core.model import Address

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
kinds = st.from_regex(r"[A-Z][A-Za-z]{0,20}", fullmatch=True)
addresses = st.builds(Address, kinds, names, st.none() | names, st.integers(0, 999))


@given(addresses)
def test_an_address_comes_back_from_its_text(address: Address) -> None:
    assert Address.parse(str(address)) == address


@given(addresses, addresses)
def test_different_addresses_have_different_texts(one: Address, other: Address) -> None:
    assert (str(one) == str(other)) == (one == other)


def test_the_first_of_many_has_no_ordinal_in_its_text() -> None:
    assert str(Address("Volume", "data", "shop", 0)) == "Volume/shop/data"
    assert str(Address("Volume", "data", "shop", 1)) == "Volume/shop/data[1]"


@pytest.mark.parametrize(
    "text",
    ["", "Volume", "Volume/", "/data", "volume/shop/data", "Volume/a/b/c", "Volume/data[x]", "Volume/data[1"],
)
def test_other_text_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="Volume/shop/data"):
        Address.parse(text)


@given(addresses)
def test_a_shell_takes_a_quoted_address_for_one_word(address: Address) -> None:
    assert shlex.split(address.quoted) == [str(address)]
    assert (address.quoted == str(address)) == (not address.ordinal)


def test_an_option_that_is_offered_in_a_text_names_a_quoted_address() -> None:
    """Whole commands are data, and quoted where they are shown: see core/advice.py."""
    option = r"(?:state forget|resolve|--approve-delete|--accept) \{([^}]+)\}"
    source = "\n".join(file.read_text() for file in Path(reconciler.__path__[0]).rglob("*.py"))
    assert set(re.findall(option, source)) == {"address.quoted"}

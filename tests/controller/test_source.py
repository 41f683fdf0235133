"""Which addresses of a remote are paths, as git reads them (gitcli, "GIT URLS")."""

import pytest

from reconciler.controller.source import is_path


@pytest.mark.parametrize("url", ["/srv/shop.git", "../shop.git", "shop.git", "./a:b/shop.git"])
def test_a_path_is_relative_to_the_clone_that_names_it(url: str) -> None:
    assert is_path(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.com/shop.git",
        "ssh://git@git.example.com:2222/shop.git",
        "git@git.example.com:team/shop.git",
        "git.example.com:shop.git",
        "file:///srv/shop.git",
    ],
)
def test_an_address_stays_as_it_is(url: str) -> None:
    assert not is_path(url)

"""What people see of a state's URL never holds a password, and what environments make of it."""

import pytest

from reconciler.core.state_url import is_shared, shown_url, url_of_environment


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:/srv/a@b/state.db", "sqlite:/srv/a@b/state.db"),
        ("postgresql://db.example:5432/state", "postgresql://db.example:5432/state"),
        ("postgresql://ann:hunter2@db.example:5432/state?password=x#y", "postgresql://db.example:5432/state"),
        ("postgresql://ann:hun@ter/2@db/state", "postgresql://db/state"),
        ("postgresql://ann:hun#ter2@db/state", "postgresql://db/state"),
        ("postgresql://ann:hun?ter2@db/state", "postgresql:…"),
        ("postgresql://ann:hunter2/state", "postgresql:…"),
        ("postgresql://db/state?password=hun@ter2", "postgresql:…"),
        ("postgresql://a:1,[::1]:2/state?sslmode=verify-full", "postgresql://a:1,[::1]:2/state"),
        ("postgresql:///state?host=/run/postgresql", "postgresql:///state"),
        ("postgresql:host=db password=hunter2", "postgresql:…"),
        ("s3://key:secret@bucket/folder", "s3://bucket/folder"),
        ("s3://bucket/folder", "s3://bucket/folder"),
        ("hunter2", "…"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:.reconcile/state.db", "sqlite:.reconcile/prod/state.db"),
        ("postgresql://db/state", "postgresql://db/state"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
    ],
)
def test_only_files_are_kept_apart_by_their_names(url: str, expected: str) -> None:
    assert url_of_environment(url, "prod") == expected
    assert url_of_environment(url, "") == url


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "s3", "gs", "az"])
def test_a_store_that_machines_reach_is_shared(scheme: str) -> None:
    assert is_shared(f"{scheme}://place/prefix")
    assert not is_shared("sqlite:state.db")

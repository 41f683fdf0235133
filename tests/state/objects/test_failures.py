"""What stores of each kind say when they refuse, as people are told it."""

import pytest
from obstore.exceptions import BaseError, GenericError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from reconciler.core.errors import StoreError
from reconciler.state.log.bucket import NoAnswer
from reconciler.state.places.objects.bucket import open_bucket
from reconciler.state.places.objects.errors import reading, writing


@pytest.mark.parametrize(
    ("place", "error", "message", "help"),
    [
        (
            "az://team/shop",  # the emulator's word for a wrong key
            PermissionDeniedError(
                "403: <Code>AuthorizationFailure</Code> Server failed to authenticate the request"
            ),
            "the state az://team/shop does not accept these credentials",
            "such as AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        ),
        (
            "az://team/shop",
            PermissionDeniedError(
                "403: <Code>AuthenticationFailed</Code> Lifetime validation failed: it expired"
            ),
            "the credentials for the state az://team/shop have expired",
            "get new ones",
        ),
        (
            "az://team/shop",
            PermissionDeniedError("403: <Code>AuthorizationPermissionMismatch</Code>"),
            "these credentials may not write the state az://team/shop",
            "Storage Blob Data Contributor",
        ),
        (
            "gs://team/shop",
            PermissionDeniedError("403: <Code>AccessDenied</Code>"),
            "these credentials may not write the state gs://team/shop",
            "storage.objects.create and storage.objects.delete",
        ),
        (
            "gs://team/shop",
            UnauthenticatedError("401: <Code>AuthenticationRequired</Code>"),
            "the state gs://team/shop does not accept these credentials",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ),
        (
            "s3://team/shop",  # nothing landed, whatever its status is
            GenericError("status code: 400 <Code>ExpiredToken</Code>"),
            "the credentials for the state s3://team/shop have expired",
            "get new ones",
        ),
    ],
)
def test_a_refusal_is_told_in_the_words_of_its_store(
    place: str, error: BaseError, message: str, help: str
) -> None:
    def refuse() -> None:
        raise error

    with pytest.raises(StoreError) as told:
        writing(place, refuse)
    assert told.value.message == message
    assert help in told.value.help


def test_a_write_that_got_no_answer_is_not_taken_for_refused() -> None:
    def break_off() -> None:
        raise GenericError("HttpError { kind: Timeout }")

    with pytest.raises(NoAnswer, match="the store did not answer in time"):
        writing("s3://team/shop", break_off)
    with pytest.raises(StoreError, match="cannot be reached: the store did not answer in time"):
        reading("s3://team/shop", break_off)


@pytest.mark.parametrize(
    ("url", "variables", "help"),
    [
        ("az://team/shop", {}, "AZURE_STORAGE_ACCOUNT_NAME"),
        ("s3://team/shop", {"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "perhaps"}, "that begin with AWS_"),
        ("gs://team/shop", {"GOOGLE_SERVICE_ACCOUNT_KEY": "hunter2"}, "that begin with GOOGLE_"),
    ],
)
def test_variables_that_cannot_be_used_are_told_by_how_they_begin(
    url: str, variables: dict[str, str], help: str
) -> None:
    with pytest.raises(StoreError, match="cannot be opened with these variables") as told:
        open_bucket(url, variables)
    assert help in told.value.help
    assert "hunter2" not in told.value.message + told.value.help


@pytest.mark.parametrize("address", ["http://[::1", "store.example", "ftp://store.example"])
def test_an_address_that_is_not_one_is_refused(address: str) -> None:
    with pytest.raises(StoreError, match="is not a URL"):
        open_bucket("s3://team/shop", {"AWS_ENDPOINT": address})


def test_one_address_counts_and_the_setting_is_the_first() -> None:
    several = {"AWS_ENDPOINT": "http://a", "AWS_ENDPOINT_URL": "http://b", "AWS_BUCKET": "another"}
    for setting, counts in (("", "http://b"), ("http://127.0.0.1:1", "http://127.0.0.1:1")):
        opened = open_bucket("s3://team/shop", several, setting)._reads
        assert isinstance(opened, S3Store)
        assert dict(opened.config)["endpoint_url_s3"] == counts

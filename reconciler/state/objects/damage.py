"""What is not as it was written, and how a person is told."""

from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.core.advice import command
from reconciler.core.errors import StoreError


class Damaged(Exception):
    """Says what is not as it was written; `explained` adds the place and the way out."""


class Gone(Exception):
    """A file that a head named is not there: the head has changed since, or the file is lost."""


class Newer(Exception):
    """A newer program wrote it."""


@contextmanager
def explained(place: str) -> Iterator[None]:
    try:
        yield
    except Newer as error:
        raise newer_program(place) from error
    except Gone as error:
        raise damaged(place, f"{error} is missing") from error
    except Damaged as error:
        raise damaged(place, str(error)) from error


def damaged(place: str, what: str) -> StoreError:
    restore = command("state", "restore", "FILE")
    return StoreError(
        f"the state {place} is damaged: {what}",
        help=f"restore a backup with `{restore}`",
        advice=(restore,),
    )


def newer_program(place: str) -> StoreError:
    return StoreError(
        f"the state {place} was written by a newer version of this program",
        help="install that version, or a newer one",
    )

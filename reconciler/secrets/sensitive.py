"""A secret value in memory, in a wrapper that nothing prints, stores or sends by accident.

`as_value` makes its text from the bytes of a file or of a program's output.
"""

from typing import NoReturn, final

from reconciler.core.errors import SecretUnavailable
from reconciler.core.model import SENSITIVE


@final
class Sensitive:
    """Text that shows as `model.SENSITIVE`; only `reveal` gives it away.

    Cannot be pickled, copied or turned into JSON, and equals nothing but itself.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value, for the one call that sends it."""
        return self._value

    def __repr__(self) -> str:
        return SENSITIVE

    def __format__(self, spec: str) -> str:
        return format(SENSITIVE, spec)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a sensitive value cannot be pickled or copied")


MAX_BYTES = 1024 * 1024

_ENCODE_HELP = "encode the value, for example as base64"


def as_value(raw: bytes, what: str) -> str:
    """Return the text without its last newline, which editors and `echo` add.

    Raises SecretUnavailable when `raw` is too large, empty or not UTF-8. The message names `what`, such as
    a file, and never its content.
    """
    if len(raw) > MAX_BYTES:
        raise SecretUnavailable(f"{what} is larger than {MAX_BYTES} bytes")
    text = _decode(raw)
    if text is None:
        # Raised out here, because a UnicodeDecodeError carries the bytes along as context.
        raise SecretUnavailable(f"{what} is not UTF-8 text", help=_ENCODE_HELP)
    if not text:
        raise SecretUnavailable(f"{what} is empty")
    return text


def _decode(raw: bytes) -> str | None:
    ending = next((ending for ending in (b"\r\n", b"\n") if raw.endswith(ending)), b"")
    try:
        return raw.removesuffix(ending).decode()
    except UnicodeDecodeError:
        return None

"""From the bytes that a source gives to the text of a value."""

from reconciler.core.errors import SecretUnavailable

MAX_BYTES = 1024 * 1024

_ENCODE_HELP = "encode the value, for example as base64"


def as_value(raw: bytes, what: str) -> str:
    """The text without its last newline, which editors and `echo` add.

    Raises SecretUnavailable naming `what`, never what it holds, when that is too large, empty or no text.
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

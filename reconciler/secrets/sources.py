"""From a `SecretRef` to its value: environment variables, files, and templates of both."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reconciler.errors import SecretUnavailable
from reconciler.secrets.sensitive import Sensitive
from reconciler.steps import OutputRef, SecretRef

MAX_FILE_BYTES = 1024 * 1024

_ENCODE_HELP = "encode the value, for example as base64"


def resolve(
    ref: SecretRef,
    *,
    env: Mapping[str, str],
    read_file: Callable[[str], bytes],
    output: Callable[[OutputRef], Any],
) -> Sensitive:
    """The value of `ref`. Raises SecretUnavailable naming the source that has none.

    An empty variable or file counts as none: CI systems hand out empty variables for secrets that
    do not exist. `output` gives the value of an earlier answer; None or a LookupError: not known.
    """
    if ref.source == "env":
        return Sensitive(_from_env(ref.name, env))
    if ref.source == "each":
        raise SecretUnavailable("the value is known only once an answer brings it")
    if ref.source == "file":
        return Sensitive(_from_file(ref.name, read_file))
    texts: list[str] = []
    for part in ref.parts:
        if isinstance(part, OutputRef):
            texts.append(_from_output(part, output))
        elif isinstance(part, SecretRef):
            texts.append(resolve(part, env=env, read_file=read_file, output=output).reveal())
        else:
            texts.append(part)
    return Sensitive("".join(texts))


def read_secret_file(name: str) -> bytes:
    """A `read_file` that never reads much more than `resolve` accepts. Raises OSError."""
    with Path(name).open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def _from_env(name: str, env: Mapping[str, str]) -> str:
    value = env.get(name)
    if value is None:
        raise SecretUnavailable(f"the environment variable `{name}` is not set")
    if not value:
        raise SecretUnavailable(f"the environment variable `{name}` is empty")
    # What is not UTF-8 in the environment, Python hands over as lone surrogates.
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise SecretUnavailable(f"the environment variable `{name}` is not UTF-8 text", help=_ENCODE_HELP)
    return value


def _from_file(name: str, read_file: Callable[[str], bytes]) -> str:
    """The file's text without its last newline, which editors and `echo` add."""
    try:
        raw = read_file(name)
    except OSError as error:
        raise SecretUnavailable(f"the file `{name}` cannot be read: {error.strerror}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise SecretUnavailable(f"the file `{name}` is larger than {MAX_FILE_BYTES} bytes")
    text = _decode(raw)
    if text is None:
        # Raised out here, because a UnicodeDecodeError carries the bytes along as context.
        raise SecretUnavailable(f"the file `{name}` is not UTF-8 text", help=_ENCODE_HELP)
    if not text:
        raise SecretUnavailable(f"the file `{name}` is empty")
    return text


def _decode(raw: bytes) -> str | None:
    ending = next((ending for ending in (b"\r\n", b"\n") if raw.endswith(ending)), b"")
    try:
        return raw.removesuffix(ending).decode()
    except UnicodeDecodeError:
        return None


def _from_output(ref: OutputRef, output: Callable[[OutputRef], Any]) -> str:
    try:
        value = output(ref)
    except LookupError as error:
        raise SecretUnavailable(f"`{ref}` is not known") from error
    if value is None:
        raise SecretUnavailable(f"`{ref}` is not known")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise SecretUnavailable(f"`{ref}` is not a single value")

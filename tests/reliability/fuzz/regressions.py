"""Inputs that failed once: files beside this one, from a failure's bytes and back."""

import base64
import json
from pathlib import Path

from tests.reliability.fuzz.mutation import Files

FOUND = Path(__file__).parent / "found"


def encoded(files: Files) -> bytes:
    """One JSON document. Contents that are UTF-8 stand in it as they are, the others in base64."""
    document = {
        "suspect": files.suspect,
        "literal": files.literal,
        "contents": list(map(_text, files.contents)),
    }
    return json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"


def decoded(document: bytes) -> Files:
    read = json.loads(document)
    return Files(read["suspect"], tuple(map(_bytes, read["contents"])), read["literal"])


def _text(content: bytes) -> str | list[str]:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return [base64.b64encode(content).decode()]


def _bytes(written: str | list[str]) -> bytes:
    return written.encode() if isinstance(written, str) else base64.b64decode(written[0])

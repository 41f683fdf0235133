"""Paths of requests: which ones may be sent at all, to any service."""

import re
from urllib.parse import unquote

from reconciler.core.errors import Refused

_SEGMENT = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]++|%[0-9A-Fa-f]{2})++"
_QUERY = r"[A-Za-z0-9._~-]+=(?:[A-Za-z0-9._~:@,+-]|%[0-9A-Fa-f]{2})*"
_PATH = re.compile(rf"(?:/{_SEGMENT})+")
_PATH_AND_QUERY = re.compile(rf"((?:/{_SEGMENT})+)(?:\?{_QUERY}(?:&{_QUERY})*)?")
_HIDDEN = re.compile(r"[\x00-\x1f\x7f/\\]")


def check(method: str, path: str) -> None:
    """Raises Refused for a path that might reach another object than the one it names.

    It begins with `/` and holds no empty, `.` or `..` segment, encoded or not, no encoded `/`
    and no control character. Only a GET may carry a query.
    """
    found = (_PATH_AND_QUERY if method == "GET" else _PATH).fullmatch(path)
    bare = path.partition("?")[0]
    if not found or (("%" in bare or "/." in bare) and not all(map(_is_plain, bare[1:].split("/")))):
        raise Refused(f"{path!r} is not a path of the API, so {method} is not sent")


def _is_plain(part: str) -> bool:
    text = unquote(part)
    return text not in (".", "..") and not _HIDDEN.search(text)

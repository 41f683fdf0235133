"""Files of sops among manifests: they hold the values that manifests point at, and declare nothing.

Source: sops 3. It adds its own key `sops` to every document, with the code `mac` over all values.
"""

from collections.abc import Container
from typing import Any


def is_of_sops(value: Any) -> bool:
    """Whether the document is one that sops has written, and no manifest."""
    if not isinstance(value, dict) or "sops" not in value or "apiVersion" in value or "kind" in value:
        return False
    own = value["sops"]
    return isinstance(own, dict) and isinstance(own.get("mac"), str) and "version" in own


def holds_patches(value: dict[str, Any], kinds: Container[str]) -> bool:
    """Whether a key is an address: an overlay that somebody encrypted has to be reported, not passed over."""
    return any("/" in key and (key.partition("/")[0] in kinds or set(key) & set("*?")) for key in value)

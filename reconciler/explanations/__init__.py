"""One page per diagnostic code in this folder: `CODE.md`, in Markdown.

A page begins with `# CODE: title`. Then come the cause, an example (the manifest as ```yaml if there is one,
and the diagnostic as ```text, exactly as it is printed) and the cure. Tests compare them with the product.
"""

from importlib.resources import files

from msgspec import Struct

_SUFFIX = ".md"


class Explanation(Struct, frozen=True):
    """One page: `title` is the meaning of the code in one line, `text` the rest, in Markdown."""

    code: str
    title: str
    text: str


def known_codes() -> list[str]:
    """Return every code that has a page, in alphabetical order."""
    return sorted(
        item.name.removesuffix(_SUFFIX) for item in files(__name__).iterdir() if item.name.endswith(_SUFFIX)
    )


def read_explanation(code: str) -> Explanation:
    """Return the page of `code`, one of `known_codes`."""
    page = files(__name__).joinpath(f"{code}{_SUFFIX}").read_text(encoding="utf-8")
    heading, _, text = page.partition("\n")
    return Explanation(code, heading.removeprefix(f"# {code}: "), text.strip() + "\n")

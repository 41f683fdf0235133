"""One page per diagnostic code, beside this file: `CODE.md`, in Markdown.

A page begins with `# CODE: title`. Then come the cause, an example (the manifest as ```yaml where there is
one, and the diagnostic as ```text, just as it is printed) and the cure. Tests compare both with the product.
"""

from importlib.resources import files

from msgspec import Struct

_SUFFIX = ".md"


class Explanation(Struct, frozen=True):
    """`title` says in one line what the code means; `text` is the rest of the page, in Markdown."""

    code: str
    title: str
    text: str


def known_codes() -> list[str]:
    """Every code that has a page, in alphabetical order."""
    return sorted(
        item.name.removesuffix(_SUFFIX) for item in files(__name__).iterdir() if item.name.endswith(_SUFFIX)
    )


def read_explanation(code: str) -> Explanation:
    """The page of `code`, which is one of `known_codes`."""
    page = files(__name__).joinpath(f"{code}{_SUFFIX}").read_text(encoding="utf-8")
    heading, _, text = page.partition("\n")
    return Explanation(code, heading.removeprefix(f"# {code}: "), text.strip() + "\n")

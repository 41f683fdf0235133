"""The extras of this package, such as `reconciler[sandbox]`.

Only pyproject.toml lists their packages.
"""

import re
from importlib.metadata import PackageNotFoundError, distribution, requires

from reconciler.core.errors import ExtraMissing

_PACKAGE = "reconciler"


def require_extra(extra: str, what: str) -> None:
    """Raise ExtraMissing unless all packages of `extra` are installed. `what` needs them, in words."""
    missing = [name for name in _packages(extra) if not _installed(name)]
    if missing:
        raise extra_missing(extra, f"{what} needs packages that are not installed: {', '.join(missing)}")


def extra_missing(extra: str, message: str) -> ExtraMissing:
    """Return the error about packages of `extra`, with the command that installs them.

    That names a wheel, because the bare name belongs to another project on PyPI.
    """
    help = f"pip install '{_PACKAGE}[{extra}] @ WHEEL', the wheel that this program is from"
    return ExtraMissing(message, help=help)


def _packages(extra: str) -> list[str]:
    """Return their names, from metadata of the installed package: `uvicorn>=0.32; extra == 'sandbox'`."""
    line = re.compile(rf"([\w.-]+)[^;]*;.*\bextra == ['\"]{re.escape(extra)}['\"].*")
    requirements = requires(_PACKAGE) or ()
    return sorted(found[1] for text in requirements if (found := line.fullmatch(text)))


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True

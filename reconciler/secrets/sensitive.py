"""A secret value in memory, in a wrapper that nothing prints, stores or sends by accident."""

from typing import NoReturn, final

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
        """The value, for the one call that sends it."""
        return self._value

    def __repr__(self) -> str:
        return SENSITIVE

    def __format__(self, spec: str) -> str:
        return format(SENSITIVE, spec)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a sensitive value cannot be pickled or copied")

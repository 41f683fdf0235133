"""A provider of octoDNS whose zones are always as their files say: what a platform would answer, at no cost.

octoDNS imports it by its name in `octodns.yaml`.
"""

# octoDNS has no types, and is installed with the bench group only.
# mypy: ignore-errors

from logging import getLogger
from typing import Any

from octodns.provider.base import BaseProvider
from octodns.record import Record

from bench.peers.octodns import RECORDS


class Static(BaseProvider):
    SUPPORTS_GEO = False
    SUPPORTS = frozenset({"CAA"})

    def __init__(self, id: str, **options: Any) -> None:
        self.log = getLogger(f"Static[{id}]")
        super().__init__(id, **options)

    def populate(self, zone: Any, target: bool = False, lenient: bool = False) -> bool:
        for name, data in RECORDS.items():
            zone.add_record(Record.new(zone, name, data, source=self, lenient=lenient), lenient=lenient)
        return True

    def _apply(self, plan: Any) -> None:
        raise AssertionError("the plan should have nothing to do")

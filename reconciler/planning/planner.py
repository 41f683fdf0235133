"""One plan, from a request and the answers to its reads, as they arrive.

    planner = Planner(request)
    for read in planner.reads(): planner.answer(read, observation)
    for read in planner.more_reads(): planner.more_answer(read, observation)
    plan = planner.finish(fingerprints)

`Reading` says what must be read and matches answers to subjects; `Deciding` makes the plan of them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from reconciler.core.model import Address, Observation
from reconciler.core.steps import Plan, Read
from reconciler.planning.deciding import Deciding
from reconciler.planning.lookalikes import Lookalikes
from reconciler.planning.reading import Reading
from reconciler.planning.subjects import PlanRequest, Subjects


class Planner:
    """Hands what `Reading` saw to `Deciding`. Answers may come in any order."""

    def __init__(self, request: PlanRequest) -> None:
        subjects = Subjects(request)
        self._deciding = Deciding(subjects)
        self._reading = Reading(subjects, self._deciding.refused, self._deciding.bad)
        for seen in self._reading.without_answer():
            self._deciding.take(seen)

    def reads(self) -> Sequence[Read]:
        return self._reading.reads()

    def answer(self, read: Read, observation: Observation) -> None:
        self._deciding.unread.answered(observation)
        if self._reading.leaves_unchanged(read, observation):
            self._deciding.pass_over(self._reading.pass_over(read))
            for seen in self._reading.left(read, observation):
                self._deciding.take(seen)
            return
        for each in self._reading.answer(read, observation):
            self._deciding.take(each)

    def about(self, read: Read) -> Sequence[Address]:
        return self._reading.about(read)

    def more_reads(self) -> Sequence[Read]:
        return self._reading.more_reads()

    def more_answer(self, read: Read, observation: Observation) -> None:
        self._deciding.unread.answered(observation)
        for seen in self._reading.more_answer(read, observation):
            self._deciding.take(seen)

    @property
    def live(self) -> Mapping[Address, Any]:
        """The objects that resources refer to, once all answers have come: secret values are made of them."""
        return self._deciding.live

    @property
    def lookalikes(self) -> Lookalikes:
        """What all lists have shown beside recorded objects, once their answers have come."""
        return self._reading.lookalikes

    def finish(
        self,
        fingerprints: Mapping[Address, str],
        unreadable: Collection[Address] = (),
    ) -> Plan:
        """See `Deciding.finish`."""
        return self._deciding.finish(fingerprints, unreadable)

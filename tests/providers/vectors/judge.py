"""What `reconciler.services.signing` makes of the vectors, against what it should."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path

from reconciler.services.signing import NotAuthentic, Signed, verify, verify_event, verify_webhook
from tests.providers.vectors.claims import Claim, shared_claim
from tests.providers.vectors.vector import Delivery, How, Vector

Work = tuple[str, Vector, Delivery]  # the name under which the vector's nonces differ from those of others


@dataclass(frozen=True, slots=True)
class Result:
    """`got`: a verdict for each delivery, or the name of an exception that should not have come out."""

    vector: Vector
    got: tuple[str, ...]

    def wrong(self) -> Iterator[str]:
        """ "false accept", "false reject" or "crash", for each delivery that went wrong."""
        expected, got = self.vector.expected, self.got
        if self.vector.how == "by two workers at once":
            expected, got = tuple(sorted(expected)), tuple(sorted(got))
        for should, did in zip_longest(expected, got):
            if did not in ("accepted", "duplicate", "refused"):
                yield "crash"
            elif should != did:
                yield "false reject" if did == "refused" else "false accept"


def judge(vectors: Sequence[Vector], folder: Path) -> list[Result]:
    """`folder`: for the store of nonces. Restarts and two workers are real processes."""
    file = folder / "claims.db"
    got: dict[int, tuple[str, ...]] = {}
    with shared_claim(file) as claim:
        for number, vector in _those(vectors, "in one process"):
            got[number] = tuple(_verdict((str(number), vector, sent), claim) for sent in vector.deliveries)
    got |= _with_restart(_those(vectors, "with a restart between"), file)
    got |= _by_two_workers(_those(vectors, "by two workers at once"), file)
    return [Result(vector, got[number]) for number, vector in enumerate(vectors)]


def _those(vectors: Sequence[Vector], how: How) -> list[tuple[int, Vector]]:
    return [(number, vector) for number, vector in enumerate(vectors) if vector.how == how]


def _with_restart(vectors: list[tuple[int, Vector]], file: Path) -> dict[int, tuple[str, ...]]:
    """All first deliveries to one process, which ends; all second ones to the next."""
    rounds: list[list[str]] = []
    for turn in range(2 if vectors else 0):
        with _worker() as worker:
            work = [(str(number), vector, vector.deliveries[turn]) for number, vector in vectors]
            rounds.append(worker.submit(_verdicts, work, file).result())
    return {number: (rounds[0][at], rounds[1][at]) for at, (number, _) in enumerate(vectors)}


def _by_two_workers(vectors: list[tuple[int, Vector]], file: Path) -> dict[int, tuple[str, ...]]:
    if not vectors:
        return {}
    with _worker() as one, _worker() as other:
        got = {}
        for number, vector in vectors:
            works = ((str(number), vector, sent) for sent in vector.deliveries)
            both = [
                worker.submit(_verdicts, [work], file)
                for worker, work in zip((one, other), works, strict=True)
            ]
            got[number] = tuple(asked.result()[0] for asked in both)
        return got


def _worker() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def _verdicts(work: list[Work], file: Path) -> list[str]:
    with shared_claim(file) as claim:
        return [_verdict(delivery, claim) for delivery in work]


def _verdict(work: Work, claim: Claim) -> str:
    name, vector, sent = work
    try:
        return _received(vector, sent, lambda text: claim(f"{name} {text}"))
    except NotAuthentic:
        return "refused"
    except Exception as error:  # what a server would answer with 500
        return type(error).__name__


def _received(vector: Vector, sent: Delivery, claim: Claim) -> str:
    timed = partial(verify_webhook, now=sent.at, claim=claim, encoding=vector.encoding)
    if sent.kind == "webhook":
        fields = timed(sent.signatures, sent.body, vector.secrets)
        return "duplicate" if fields is None else "accepted"
    if sent.kind == "event":
        verify_event(sent.signatures, sent.body, vector.secrets, encoding=vector.encoding)
        return "accepted"
    request = Signed(sent.method, sent.url, sent.signatures, sent.body)
    verify(request, vector.secrets, now=sent.at, claim=claim, encoding=vector.encoding)
    return "accepted"

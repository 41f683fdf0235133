"""The subjects of the command and of the tests."""

from random import Random
from typing import Any

from tests.reliability.fuzz import answers, manifests
from tests.reliability.fuzz.campaign import Subject
from tests.reliability.fuzz.mutation import make_files
from tests.reliability.fuzz.regressions import encoded
from tests.reliability.responses import situations


def _files(ground: Any, seed: int) -> bytes:
    return encoded(make_files(Random(seed)))


def _answers(ground: situations.Ground, seed: int) -> bytes:
    return ground.last


MANIFESTS = Subject("manifests", manifests.prepare, manifests.check_seed, _files)
RESPONSES = Subject("responses", situations.prepare, situations.check_seed, _answers)
ANSWERS = Subject("answers", answers.prepare, answers.check_seed, answers.keep)

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.core.model import SENSITIVE
from reconciler.secrets.sensitive import Sensitive


def test_only_reveal_gives_the_value_away() -> None:
    value = Sensitive("hunter2")
    assert value.reveal() == "hunter2"
    assert [str(value), repr(value), f"{value}", f"{value!r:>12}", f"{value:.3}"] == [
        SENSITIVE,
        SENSITIVE,
        SENSITIVE,
        f"{SENSITIVE:>12}",
        SENSITIVE[:3],
    ]
    assert str({"password": [value]}) == f"{{'password': [{SENSITIVE}]}}"


@pytest.mark.parametrize("store", [pickle.dumps, json.dumps, copy.copy, copy.deepcopy, vars, "".join])
def test_nothing_stores_or_copies_it(store: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError) as refused:
        store([Sensitive("hunter2")] if store == "".join else Sensitive("hunter2"))
    assert "hunter2" not in str(refused.value)

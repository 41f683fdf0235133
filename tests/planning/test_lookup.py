"""An index never finds anything else than a look at every object does, nor in another order."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.planning.lookup import Lookup, possible
from reconciler.services.machines.wire.volume import Volume

_VALUES = st.sampled_from([None, "a", "b"])
_OBJECTS = st.builds(lambda name, region, size: (name, region, size), _VALUES, _VALUES, _VALUES)
_FIELDS = ("name", "region", "zone")


@given(
    st.lists(_OBJECTS, max_size=12),
    st.lists(st.dictionaries(st.sampled_from(_FIELDS), _VALUES), max_size=6),
)
def test_an_index_finds_what_a_look_at_every_object_finds(
    objects: list[tuple[str | None, ...]], matches: list[dict[str, str | None]]
) -> None:
    shown = [
        Volume(id=f"vol_{at}", **dict(zip(_FIELDS, item, strict=True))) for at, item in enumerate(objects)
    ]
    lookup = Lookup(shown)
    for match in matches:
        assert lookup.possible(match) == possible(match, shown)

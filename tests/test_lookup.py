"""An index never finds anything else than a look at every object does, nor in another order."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.lookup import Lookup, Matches, matching, possible
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
        assert lookup.matching(match) == matching(match, shown)


@given(
    st.lists(_OBJECTS, max_size=6),
    st.lists(st.dictionaries(st.sampled_from(_FIELDS), st.sampled_from(["a", "b"])), max_size=12),
)
def test_the_other_way_round_it_finds_every_match_that_an_object_may_equal(
    objects: list[tuple[str | None, ...]], matches: list[dict[str, str]]
) -> None:
    lookup = Matches(matches)
    for values in objects:
        item = Volume(id="vol_1", **dict(zip(_FIELDS, values, strict=True)))
        meant = [place for place, match in enumerate(matches) if possible(match, [item])]
        assert lookup.possible(partial(getattr, item)) == meant

"""What the answers to GETs hold, and the names by which plans and the journal call that."""

import pytest
from pydantic import TypeAdapter, ValidationError

from reconciler.core.steps import Read
from reconciler.core.wire import Shape, many, one
from reconciler.kinds import find_kinds
from reconciler.services.machines.wire.cluster import Cluster
from reconciler.services.machines.wire.machine import MachineWaited
from reconciler.services.machines.wire.secret import Secret
from reconciler.services.machines.wire.volume import Volume
from reconciler.services.outcome import read_shape

# Journals and saved plans hold these words: each must be known for as long as one may be read.
LASTING = [
    *("cluster", "clusters", "cluster_backups", "volume", "volumes", "snapshots", "secrets", "machine"),
    *("machines", "machine_wait", "extension", "extension_costs"),
]


@pytest.mark.parametrize("name", LASTING)
def test_what_an_earlier_version_stored_is_still_known(name: str) -> None:
    find_kinds()
    stored = {"path": "/v1/x", "shape": name, "service": "platform", "sensitive": False}
    read = TypeAdapter(Read).validate_python(stored)
    assert TypeAdapter(Read).dump_python(read, mode="json") == stored


def test_a_shape_that_no_model_has_is_refused() -> None:
    with pytest.raises(ValidationError, match="no answer has the shape `windows`"):
        TypeAdapter(Read).validate_python({"path": "/v1/x", "shape": "windows"})


def test_no_two_models_have_one_name() -> None:
    find_kinds()
    shapes = [shape for model in Shape.models() for shape in (one(model), many(model))]
    assert len({*map(str, shapes)}) == len(shapes) >= len(LASTING)


def test_objects_are_found_where_their_model_says() -> None:
    (cluster,) = read_shape(one(Cluster), b'{"data": {"id": "c1"}}')
    assert read_shape(many(Cluster), b'{"data": [{"id": "c1"}]}') == [cluster]
    assert read_shape(many(Secret), b'{"secrets": [{"name": "A"}]}') == [Secret(name="A")]
    assert read_shape(many(Volume), b'[{"id": "v1"}]') == [Volume(id="v1")]
    assert read_shape(one(MachineWaited), b" ") == [MachineWaited()]
    with pytest.raises(ValidationError):
        read_shape(one(Volume), b" ")

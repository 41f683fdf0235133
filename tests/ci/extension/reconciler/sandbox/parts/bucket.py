"""Buckets of apps, in the emulated platform."""

from dataclasses import dataclass
from typing import Any

from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.exchange import Request, Response, reply
from reconciler.sandbox.part import Date, Item, Name, Part, Routes, Seed, moment_or_now
from reconciler.sandbox.parts.app import listed_in_app, register, required_app, required_in_app
from reconciler.sandbox.world import Thing, World
from reconciler.services.machines.wire import bucket as wires


@dataclass
class Bucket(Thing):
    kind = "bucket"
    app: str
    name: str
    region: str
    versions: bool
    created_at: float

    @property
    def parents(self) -> tuple[str, ...]:
        return (self.app,)


_BUCKETS = "/v1/apps/{app_name}/buckets"
_BUCKET = _BUCKETS + "/{bucket_id}"
route = Routes("bucket")


@route(
    "POST",
    _BUCKETS,
    "Create a bucket",
    wires.Bucket,
    body=wires.BucketCreate,
    gives={"bucket_id": "/id"},
    example={"name": "photos", "region": "ams"},
)
def create(world: World, request: Request, app_name: str) -> Response:
    app, body = required_app(world, app_name), request.read(wires.BucketCreate)
    id = f"bkt_{world.new_id()}"
    bucket = Bucket(id, app.id, body.name, body.region, body.versions, world.now)
    world.put(bucket)
    return reply(_wire(bucket))


@route("GET", _BUCKETS, "List buckets", wires.BucketList, gives={"bucket_id": "/buckets/0/id"})
def list_all(world: World, request: Request, app_name: str) -> Response:
    return reply({"buckets": [_wire(bucket) for bucket in listed_in_app(world, Bucket, app_name)]})


@route("GET", _BUCKET, "Get a bucket", wires.Bucket)
def get(world: World, request: Request, app_name: str, bucket_id: str) -> Response:
    return reply(_wire(required_in_app(world, Bucket, app_name, bucket_id)))


@route("PUT", _BUCKET, "Update a bucket", wires.Bucket, body=wires.BucketUpdate, example={"versions": True})
def update(world: World, request: Request, app_name: str, bucket_id: str) -> Response:
    bucket = required_in_app(world, Bucket, app_name, bucket_id)
    bucket.versions = request.read(wires.BucketUpdate).versions
    world.put(bucket)
    return reply(_wire(bucket))


@route("DELETE", _BUCKET, "Delete a bucket", wires.Bucket)
def delete(world: World, request: Request, app_name: str, bucket_id: str) -> Response:
    bucket = required_in_app(world, Bucket, app_name, bucket_id)
    world.remove(bucket)
    return reply(_wire(bucket))


def _wire(bucket: Bucket) -> dict[str, Any]:
    return {**bucket.shown("id", "name", "region", "versions"), "created_at": rfc3339(bucket.created_at)}


class BucketItem(Item):
    id: Name | None = None
    app: Name
    name: str
    region: str
    versions: bool = False
    created_at: Date | None = None


def _plant(world: World, item: BucketItem) -> None:
    register(world, item.app)
    id, made_at = item.id or f"bkt_{world.new_id()}", moment_or_now(world, item.created_at)
    world.put(Bucket(id, item.app, item.name, item.region, item.versions, made_at))


_SEED = Seed(
    "buckets",
    Bucket,
    shown=lambda world, bucket: {"app": bucket.app, **_wire(bucket)},
    columns=("app", "id", "name", "region"),
    plant=_plant,
    form=BucketItem,
    after=("apps",),
)

PART = Part(routes=route.found, things=(Bucket,), seeds=(_SEED,))

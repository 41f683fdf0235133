"""Buckets as the platform of this exercise sends them."""

from typing import ClassVar

from reconciler.core.wire import Wire


class BucketCreate(Wire):
    name: str
    region: str
    versions: bool = False


class BucketUpdate(Wire):
    versions: bool


class Bucket(Wire):
    shape: ClassVar = "bucket"
    many_at: ClassVar = "buckets"

    id: str
    name: str
    region: str
    versions: bool | None = None
    created_at: str | None = None


class BucketList(Wire):
    buckets: list[Bucket]

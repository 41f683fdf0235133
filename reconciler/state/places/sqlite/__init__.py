"""The state in one SQLite file: the default, for one machine or one CI runner with a disk.

`store.py` is `state.log` over this file, with backups beside it. What it has of its own:

    bucket, schema     the objects, as rows of one table; what is written at one moment is one transaction
    holders, locks     who holds a lease: a byte of the lock file, which its process frees when it dies
    seen               the newest change that was acknowledged, beside the file: an older copy lacks it
    files, database    files that appear whole, and what SQLite says when it fails
    backups, restore, salvage   copies, and the way back with what a damaged file still proves
    older              files of older versions, read as `StateDump`
"""

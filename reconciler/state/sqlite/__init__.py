"""The state in one SQLite file: the default, for one machine or one CI runner with a disk."""

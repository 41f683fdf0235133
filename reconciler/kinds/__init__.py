"""One file per kind. A module here with a `KIND` is found by `find_kinds`; there is no list to edit."""

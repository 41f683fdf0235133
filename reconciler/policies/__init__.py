"""What manifests may say that owns no object. A module here with a `KIND` is found by `kinds.find_kinds`."""

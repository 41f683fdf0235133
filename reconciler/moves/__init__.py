"""Records that get another address: what Moved manifests say, and renames that nobody wrote down."""

"""Values to YAML text: new manifests, and new values at their places in old ones."""

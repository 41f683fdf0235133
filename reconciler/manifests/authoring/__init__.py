"""What manifests may hold, for those who write them: schema, reference, manifests to fill in."""

"""What manifests may hold, for whoever writes them: schema, reference, manifests to fill in."""

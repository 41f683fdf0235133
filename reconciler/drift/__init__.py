"""What moved without us: found, compared with a baseline, or written into the manifests."""

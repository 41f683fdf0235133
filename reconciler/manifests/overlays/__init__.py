"""What an environment makes of the manifests."""

"""What we know and what we did: records, journal and leases behind one small protocol (`store.Store`)."""

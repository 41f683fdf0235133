"""Makes a plan of manifests, records and observations. Pure: nothing here reads, writes or waits."""

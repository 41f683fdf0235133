"""What is measured on: one set of volumes, spelled as manifests, records and the platform's answers."""

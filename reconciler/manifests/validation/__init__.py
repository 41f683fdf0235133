"""From composed documents to resources: one strict pass, and what can be said only once all were read."""

"""The state in a PostgreSQL database, for teams and for runners that are thrown away."""

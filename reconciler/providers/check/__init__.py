"""The conformance run: calls a provider at its address, and checks the demands of the API document."""

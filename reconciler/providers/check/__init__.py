"""Whether a provider does what the API document demands of it: a conformance run against its address."""

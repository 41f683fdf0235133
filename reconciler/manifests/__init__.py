"""YAML text to validated resources, each value with its position. The only layer that names `yaml`."""

"""The files of a new project: settings, a first manifest, an environment, and the jobs of the CI service."""

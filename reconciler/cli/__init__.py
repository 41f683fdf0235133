"""The command line: options in, one function of `project/`, a report and an exit code out."""

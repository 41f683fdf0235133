"""The command line: options in, one pipeline function, a report and an exit code out."""

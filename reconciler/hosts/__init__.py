"""Git hosts: a report as a comment on a pull request, and as the status of a commit."""

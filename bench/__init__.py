"""How fast and how large, beside Terraform on the same machine in the same run: `python -m bench`."""

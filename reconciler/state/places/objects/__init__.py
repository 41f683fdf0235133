"""A state in S3, Google Cloud Storage or Azure, and whatever speaks like one of them."""

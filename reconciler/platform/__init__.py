"""The client of the platform's /v1 API: requests, what their answers mean, and nothing of any kind."""

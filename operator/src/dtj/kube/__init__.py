"""The only package that talks to the API server."""

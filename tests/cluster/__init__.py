"""A real Kubernetes on one Linux machine: build, up, load, down (see README.md beside this file)."""

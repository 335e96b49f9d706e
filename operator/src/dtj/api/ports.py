"""TCP ports inside a job's pods."""

RENDEZVOUS = 29500
"""Where rank 0 gathers the others: PyTorch's customary MASTER_PORT."""

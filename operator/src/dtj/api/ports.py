"""TCP ports inside a job's pods."""

RENDEZVOUS = 29500
"""Where rank 0 gathers the others: PyTorch's customary MASTER_PORT."""

TENSORFLOW = 2222
"""TensorFlow's customary server port, in every pod of the cluster."""

AGENT = 29480
"""Where the agent of each pod answers the operator."""

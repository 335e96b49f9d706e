"""TCP ports inside a job's pods."""

RENDEZVOUS = 29500
"""Where rank 0 gathers the others: PyTorch's customary MASTER_PORT."""

AGENT = 29480
"""Where a pod's agent tells how far the training is."""

TENSORFLOW = 2222
"""Where each TensorFlow process serves the others: the port of TensorFlow's own examples."""

"""Operator for distributed training jobs on Kubernetes.

The data flow is the package structure: ``api`` (the resource) → ``plan`` (what the objects of a job look like)
→ ``lifecycle`` (what to do next) → ``kube`` (the API server) → ``controller`` (Kopf, the queue) → ``cli``.
"""

__version__ = "0.4.0"

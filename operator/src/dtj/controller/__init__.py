"""The only package that knows Kopf: handlers, queue, process."""

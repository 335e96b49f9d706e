"""Pure: what the objects of a job look like, from its spec alone."""

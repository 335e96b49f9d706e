"""The resource: its models, its names and words. The one source of truth; imports nothing else of this package."""

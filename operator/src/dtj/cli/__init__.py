"""What people call: ``dtj …``."""

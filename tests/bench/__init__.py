"""Measurements that people run by hand; see each module."""

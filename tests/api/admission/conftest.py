"""Fixtures of the admission tests: the chart, without a cluster."""

from tests.api.chart.conftest import helm

__all__ = ["helm"]

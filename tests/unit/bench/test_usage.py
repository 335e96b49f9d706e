"""Processor time and memory as /proc tells them."""

import os

from tests.bench.scale import usage

FIELDS_AFTER_THE_NAME = "S 1 2 3 0 -1 4194560 100 0 0 0 250 50 9 9 20 0 8 0 12345 1000 200"


def test_user_and_system_time_whatever_the_program_is_called() -> None:
    assert usage.cpu_of(f"17 (kube) 1 (S) {FIELDS_AFTER_THE_NAME}") == 300


def test_the_peak_is_told_in_kib() -> None:
    assert usage.peak_of("VmPeak:\t 9000 kB\nVmHWM:\t   2000 kB\nVmRSS:\t 1000 kB\n") == 2.048


def test_a_meter_counts_from_its_start() -> None:
    before = usage.cpu_seconds(os.getpid())
    meter = usage.Meter({"this": os.getpid()})
    while usage.cpu_seconds(os.getpid()) < before + 0.1:
        pass

    used = meter.read()["this"]

    assert 0 < used.cpu_s < before + 0.1
    assert used.peak_rss_mb > 1

"""How fast jobs start and restart, and at what cost, side by side with others: `python -m tests.bench.scale` (root).

A real etcd, API server, controller manager and scheduler; nodes and kubelets are played by KWOK, so that a pod that was
placed runs at once. In turns, so that whatever else this machine does meets all of them, the contestants get the
same jobs:

- ``ours``: the operator as a process, with its usual settings,
- ``floor``: a bare asynchronous client that creates the same Services and pods, 64 in flight,
- ``indexed-job``: batch/v1 Indexed Jobs, each with a headless Service, created with 64 in flight,
- any other: ``--contestant package.module:Class``, a class with what `contestants.Contestant` asks for.

How a measurement goes: a cluster starts, a contestant starts (`prepare`), a watch of its pods begins, the clock starts,
jobs are submitted (`submit`), the clock stops when the watch has told of the last pod. Costs are taken later, when all
pods run and nobody writes any more. Then the contestant ends (`end`), and the cluster.

| module | what it does |
|---|---|
| `cluster.py`, `kwok.py` | what is measured on |
| `manifests.py`, `client.py` | what is created, and by whom |
| `contestants.py` | who competes |
| `watching.py`, `requests.py`, `usage.py` | the three instruments: pods, requests, processes |
| `scenarios.py` | what is measured, a letter each |
| `report.py`, `plots.py` | medians, ratios, tables, pictures |
| `profile.py` | where the operator spends its time |
"""

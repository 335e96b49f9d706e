"""Which requests an API server got, from its own metrics, and a process sent, from its."""

import re
from collections import Counter
from collections.abc import Iterator

READS = frozenset({"GET", "LIST", "WATCH", "CONNECT"})
BACKGROUND = frozenset({"leases", "lease", "subjectaccessreviews", "tokenreviews", "serviceaccounts/token"})
"""Resources that a cluster at rest is asked for as well."""
OF_THE_SERVER = "apiserver_request_total"
OF_A_CLIENT = "rest_client_requests_total"
_SAMPLE = re.compile(r"^(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>[0-9.eE+]+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Requests = Counter[str]
"""How many of each kind, such as ``{"POST pods": 4, "PUT endpointslices": 2}``."""


def served(page: str) -> Requests:
    """Of the API server's /metrics: all requests since its start, but for those that were refused by no code of theirs.

    A subresource follows its resource: ``POST pods/binding``.
    """
    found: Requests = Counter()
    for labels, value in _samples(page, OF_THE_SERVER):
        if resource := labels["resource"]:
            kind = f"{labels['verb']} {resource}" + (f"/{labels['subresource']}" if labels["subresource"] else "")
            found[kind] += value
    return found


def sent(page: str) -> Requests:
    """Of the /metrics of a client: its requests by method alone."""
    found: Requests = Counter()
    for labels, value in _samples(page, OF_A_CLIENT):
        found[labels["method"]] += value
    return found


def difference(after: Requests, before: Requests) -> Requests:
    """What came between two readings; kinds of which there were none are left out."""
    return Counter({kind: count - before[kind] for kind, count in sorted(after.items()) if count > before[kind]})


def writes(requests: Requests) -> Requests:
    """Those that change something for somebody: neither reads nor what a cluster at rest does anyway."""
    return Counter({kind: count for kind, count in requests.items() if not _is_background(kind)})


def _is_background(kind: str) -> bool:
    verb, _, what = kind.partition(" ")
    return verb in READS or what in BACKGROUND


def _samples(page: str, name: str) -> Iterator[tuple[dict[str, str], int]]:
    for line in page.splitlines():
        if line.startswith(f"{name}{{") and (sample := _SAMPLE.match(line)):
            yield dict(_LABEL.findall(sample["labels"])), round(float(sample["value"]))

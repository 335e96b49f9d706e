"""What is read from the metrics of an API server, and of a client."""

from collections import Counter

from tests.bench.scale import requests

SERVER = """
# HELP apiserver_request_total Counter of apiserver requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 4
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 1
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 1.2e+02
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 9
apiserver_request_total_other{verb="POST",resource="pods",subresource=""} 50
"""  # noqa: E501 - as the server writes it
CLIENT = """
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="201",host="h:1",method="POST"} 7.0
rest_client_requests_total{code="<error>",host="h:1",method="POST"} 1.0
rest_client_requests_total{code="200",host="h:1",method="GET"} 3.0
"""


def test_requests_are_counted_by_verb_and_resource_whatever_became_of_them() -> None:
    assert requests.served(SERVER) == {
        "POST pods": 5,
        "POST pods/binding": 3,
        "WATCH pods": 2,
        "PUT leases": 120,
    }


def test_writes_are_what_a_cluster_at_rest_does_not_do() -> None:
    assert requests.writes(requests.served(SERVER)) == {"POST pods": 5, "POST pods/binding": 3}


def test_those_of_a_client_are_counted_by_method() -> None:
    assert requests.sent(CLIENT) == {"POST": 8, "GET": 3}


def test_a_difference_tells_what_is_new() -> None:
    before = Counter({"POST pods": 2, "PUT services": 1})
    after = Counter({"POST pods": 5, "PUT services": 1, "DELETE pods": 1})

    assert requests.difference(after, before) == {"POST pods": 3, "DELETE pods": 1}

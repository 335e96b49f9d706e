"""Finding the API server."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import certifi
import pytest
import yaml

from dtj.kube.connection import Connection, connect
from dtj.kube.errors import ConfigurationError

SERVER = "https://10.0.0.1:6443"


def content(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> str:
    """A kubeconfig as text."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def kubeconfig(path: Path, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> Path:
    path.write_text(content(cluster, user), encoding="utf-8")
    return path


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod's service account, as the kubelet mounts it."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first\n", encoding="utf-8")
    (folder / "namespace").write_text("dtj-system", encoding="utf-8")
    (folder / "ca.crt").write_bytes(Path(certifi.where()).read_bytes())
    monkeypatch.setattr("dtj.kube.connection._SERVICE_ACCOUNT", folder)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    return folder


def test_in_a_pod_it_is_the_service_account(service_account: Path) -> None:
    connection = connect()

    assert connection.server == "https://10.96.0.1:6443"
    assert connection.tls is not None
    assert connection.tls.verify_mode is ssl.CERT_REQUIRED
    assert connection.namespace == "dtj-system"


def test_an_address_of_version_6_stands_in_brackets(service_account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT")

    assert connect().server == "https://[fd00::1]:443"


async def test_a_renewed_token_is_read_within_a_minute(service_account: Path) -> None:
    connection = connect()
    assert await connection.authorization() == "Bearer first"

    (service_account / "token").write_text("second\n", encoding="utf-8")
    assert await connection.authorization() == "Bearer first"
    await asyncio.sleep(61)
    assert await connection.authorization() == "Bearer second"


def test_an_explicit_kubeconfig_comes_first(service_account: Path, tmp_path: Path) -> None:
    connection = connect(kubeconfig(tmp_path / "config"))

    assert (connection.server, connection.namespace) == (SERVER, None)


def test_an_account_without_an_address_is_none(
    service_account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")

    assert connect(kubeconfig(tmp_path / "config")).server == SERVER


USERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "a token": ({"token": "secret"}, "Bearer secret"),
    "nothing": ({}, None),
}


@pytest.mark.parametrize(("user", "header"), USERS.values(), ids=USERS.keys())
async def test_authorization(tmp_path: Path, user: dict[str, Any], header: str | None) -> None:
    assert await connect(kubeconfig(tmp_path / "config", user=user)).authorization() == header


def tls_of(connection: Connection) -> ssl.SSLContext:
    assert connection.tls is not None
    return connection.tls


def test_certificates_are_checked_unless_the_kubeconfig_says_otherwise(tmp_path: Path) -> None:
    checked = tls_of(connect(kubeconfig(tmp_path / "a", {"certificate-authority": certifi.where()})))
    unchecked = tls_of(connect(kubeconfig(tmp_path / "b", {"insecure-skip-tls-verify": True})))

    assert (checked.verify_mode, checked.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (unchecked.verify_mode, unchecked.check_hostname) == (ssl.CERT_NONE, False)


def test_a_server_without_tls(tmp_path: Path) -> None:
    assert connect(kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:8001"})).tls is None


BAD: dict[str, str] = {
    "empty": "",
    "no YAML": "a: [",
    "no mapping": "- a",
    "no contexts": "{apiVersion: v1, kind: Config}",
    "a context that is not there": "{apiVersion: v1, kind: Config, current-context: x, contexts: [], clusters: []}",
    "a certificate that is none": content({"certificate-authority-data": "Z2FyYmFnZQ=="}),
    "a certificate that is not there": content({"certificate-authority": "/nowhere/ca.crt"}),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_kubeconfig_is_told_in_a_sentence(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "config"
    path.write_text(bad, encoding="utf-8")

    with pytest.raises(ConfigurationError, match="no way to a Kubernetes API server: "):
        connect(path)


def test_no_kubeconfig_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no way to a Kubernetes API server: "):
        connect(tmp_path / "nowhere")

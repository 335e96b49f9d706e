"""Where the API server is and how to be let in: the pod's service account, else a kubeconfig."""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from dtj.kube.errors import ConfigurationError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_LIFETIME = 60.0
"""Seconds between two readings of the token file: the kubelet renews it when an hour's token has 20 % left."""

Authorization = Callable[[], Awaitable[str | None]]
"""Gives the value of the Authorization header; None where a client certificate speaks."""


@dataclass(frozen=True)
class Connection:
    """An API server and the credentials for it. ``namespace``: that of the pod this process runs in, if it does."""

    server: str
    tls: ssl.SSLContext | None
    authorization: Authorization
    namespace: str | None = None


def connect(kubeconfig: Path | None = None) -> Connection:
    """Find the API server.

    An explicit ``kubeconfig`` comes first, then the service account of the pod, then ``$KUBECONFIG`` or
    ``~/.kube/config``. Raises ConfigurationError where none of them works.
    """
    if kubeconfig is None and (_SERVICE_ACCOUNT / "token").exists() and "KUBERNETES_SERVICE_HOST" in os.environ:
        return _from_service_account()
    return _from_kubeconfig(kubeconfig)


def _from_service_account() -> Connection:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(_SERVICE_ACCOUNT / "ca.crt"))
    namespace = (_SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    return Connection(f"https://{address}:{port}", tls, _TokenFile(_SERVICE_ACCOUNT / "token").header, namespace)


class _TokenFile:
    """A token that is renewed on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header = ""
        self._read_at = float("-inf")

    async def header(self) -> str:
        now = asyncio.get_running_loop().time()
        if now - self._read_at > _TOKEN_LIFETIME:
            token = await asyncio.to_thread(self._path.read_text)
            self._header, self._read_at = f"Bearer {token.strip()}", now
        return self._header


def _from_kubeconfig(path: Path | None) -> Connection:
    # The official client knows every kind of kubeconfig (exec plugins, OIDC …); it is imported only here, because
    # in a cluster it would only cost memory.
    try:
        from kubernetes import client, config  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError("outside of a cluster the extra is needed: pip install 'dtj[kubeconfig]'") from error
    configuration = client.Configuration()
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(path) if path else None, client_configuration=configuration
        )
        tls = _tls(configuration)
    except (config.ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, LookupError) as error:
        # The official client takes the file's shape on trust.
        raise ConfigurationError(f"no way to a Kubernetes API server: {error}") from error

    changes = configuration.refresh_api_key_hook is not None

    async def authorization() -> str | None:
        name = ("BearerToken", "authorization")
        # Who asks for a token may have to wait for a program; a client certificate needs none.
        header = (
            await asyncio.to_thread(configuration.get_api_key_with_prefix, *name)
            if changes
            else configuration.get_api_key_with_prefix(*name)
        )
        return str(header) if header else None

    return Connection(configuration.host, tls, authorization)


def _tls(configuration: object) -> ssl.SSLContext | None:
    host, ca_file = getattr(configuration, "host", ""), getattr(configuration, "ssl_ca_cert", None)
    if not host.startswith("https"):
        return None
    context = ssl.create_default_context(cafile=ca_file)
    if not getattr(configuration, "verify_ssl", True):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := getattr(configuration, "cert_file", None):
        context.load_cert_chain(certificate, getattr(configuration, "key_file", None))
    return context

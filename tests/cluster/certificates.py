"""A certificate authority of the bed's own and the certificates of its programs, made with openssl."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import BedError

VALID_DAYS = "3650"
OPENSSL_TIMEOUT = 30.0
# An own configuration: the system's adds extensions of a certificate authority to everything it signs.
CONFIGURATION = """[req]
distinguished_name = subject
[subject]
"""
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """The bed's certificate authority; every file lies in `directory`."""

    directory: Path

    @property
    def own(self) -> Certificate:
        return self._files("ca")

    @property
    def service_account_key(self) -> Path:
        return self.directory / "service-accounts.key"

    def create(self) -> None:
        """Make the authority and the key that signs the service accounts' tokens."""
        self.directory.mkdir(mode=0o700, parents=True)
        (self.directory / "openssl.cnf").write_text(CONFIGURATION)
        self._request(
            "ca", "/CN=dtj-bed", ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]
        )
        # The API server reads its token keys in this older form only, which genpkey does not write.
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(self.service_account_key))

    def server(self, name: str, addresses: Sequence[str], names: Sequence[str] = ()) -> Certificate:
        """Sign a server's certificate for IP `addresses` and DNS `names`."""
        alternatives = ",".join([*(f"IP:{a}" for a in addresses), *(f"DNS:{n}" for n in names)])
        return self._sign(name, f"/CN={name}", "serverAuth", [f"subjectAltName={alternatives}"])

    def client(self, user: str, *groups: str) -> Certificate:
        """Sign a certificate that the API server takes as `user` in `groups`."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        return self._sign(user.replace(":", "-"), subject, "clientAuth", [])

    def kubeconfig(self, path: Path, server: str, user: str, *groups: str) -> Path:
        """Write a kubeconfig (JSON is YAML) with a new client certificate of `user`; only its owner may read it."""
        mine = self.client(user, *groups)
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "bed", "cluster": {"server": server, "certificate-authority": str(self.own.certificate)}}
            ],
            "users": [
                {"name": user, "user": {"client-certificate": str(mine.certificate), "client-key": str(mine.key)}}
            ],
            "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": user}}],
            "current-context": "bed",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(document, indent=2) + "\n")
        return path

    def _files(self, name: str) -> Certificate:
        return Certificate(self.directory / f"{name}.crt", self.directory / f"{name}.key")

    def _sign(self, name: str, subject: str, usage: str, extensions: Sequence[str]) -> Certificate:
        signer = ("-CA", str(self.own.certificate), "-CAkey", str(self.own.key))
        return self._request(name, subject, [f"extendedKeyUsage={usage}", *extensions], *signer)

    def _request(self, name: str, subject: str, extensions: Sequence[str], *signer: str) -> Certificate:
        files = self._files(name)
        added = [word for extension in extensions for word in ("-addext", extension)]
        output = ("-keyout", str(files.key), "-out", str(files.certificate))
        configuration = ("-config", str(self.directory / "openssl.cnf"))
        _openssl("req", "-x509", *configuration, *KEY, "-days", VALID_DAYS, "-subj", subject, *added, *signer, *output)
        return files


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], check=False, text=True, capture_output=True, timeout=OPENSSL_TIMEOUT)
    if done.returncode != 0:
        raise BedError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")

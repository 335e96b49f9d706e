"""``dtj render``: what would be created, or a sentence about what is wrong; never a traceback."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dtj import __version__
from dtj.cli.main import main
from tests.builders import JobBuilder, a_job


def render(manifest: JobBuilder | dict[str, Any] | str, *options: str) -> Result:
    content = manifest.raw() if isinstance(manifest, JobBuilder) else manifest
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    return CliRunner().invoke(main, ["render", *options], input=text)


def changed(**parts: object) -> dict[str, Any]:
    return {**a_job().raw(), **parts}


MINIMAL = changed(metadata={"name": "digits"})


def test_the_service_and_the_pods() -> None:
    result = render({**MINIMAL, "spec": a_job().replicas(2).raw()["spec"]})

    assert result.exit_code == 0, result.output
    manifests = list(yaml.safe_load_all(result.stdout))
    assert [(each["kind"], each["metadata"]["name"], each["metadata"]["namespace"]) for each in manifests] == [
        ("Service", "digits-workers", "default"),
        ("Pod", "digits-worker-0", "default"),
        ("Pod", "digits-worker-1", "default"),
    ]


def test_the_network_policy_of_a_job_that_asks_for_one() -> None:
    result = render(a_job().spec(networkIsolation="Job"), "--operator-namespace", "operators")

    assert result.exit_code == 0, result.output
    kinds = {each["kind"]: each for each in yaml.safe_load_all(result.stdout)}
    assert list(kinds) == ["Service", "NetworkPolicy", "Pod"]
    (namespace,) = kinds["NetworkPolicy"]["spec"]["ingress"][1]["from"]
    assert namespace["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "operators"}


def test_a_namespace_for_manifests_that_name_none() -> None:
    for manifest, namespace in ((MINIMAL, "mine"), (a_job().raw(), "team-a")):
        result = render(manifest, "--namespace", "mine")
        assert {each["metadata"]["namespace"] for each in yaml.safe_load_all(result.stdout)} == {namespace}


def test_a_job_among_other_objects(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all([{"kind": "ConfigMap"}, MINIMAL]), encoding="utf-8")
    result = CliRunner().invoke(main, ["render", "-f", str(path)])

    assert result.exit_code == 0, result.output


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\n")
    result = CliRunner().invoke(main, ["render", "-f", str(path)])

    assert (result.exit_code, result.output.startswith("Error: ")) == (1, True)


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(MINIMAL), encoding="utf-8")
    result = CliRunner().invoke(main, ["render", "-f", str(path)])

    assert result.exit_code == 0, result.output


WRONG: dict[str, tuple[JobBuilder | dict[str, Any] | str, str]] = {
    "no YAML": ("a: [", "Error: not YAML: "),
    "nothing": ("", "Error: expected one DistributedTrainingJob with apiVersion, kind, metadata and spec; there are 0"),
    "a list": ("- a", "Error: expected one DistributedTrainingJob"),
    "two manifests": ("a: 1\n---\nb: 2\n", "Error: expected one DistributedTrainingJob"),
    "another kind": (changed(kind="Deployment"), "Error: expected one DistributedTrainingJob"),
    "another version": (changed(apiVersion="dtj.dev/v9"), "Error: apiVersion: "),
    "no spec": ({"metadata": {"name": "a"}}, "Error: spec: Field required"),
    "no name": (changed(metadata={}), "Error: metadata.name: a name is needed"),
    "a generated name": (changed(metadata={"generateName": "a-"}), "Error: metadata.name: a name is needed"),
    "metadata that are a word": (changed(metadata="digits"), "Error: metadata.name: a name is needed"),
    "an unknown field": (a_job().spec(worker=2), "Error: spec.worker: Extra inputs are not permitted"),
    "a wrong type": (a_job().spec(replicas="two"), "Error: spec.replicas: "),
    "no worker": (a_job().replicas(0), "Error: spec.replicas: "),
    "a framework of a later version": (a_job().framework("MPI"), "Error: spec.framework: this version"),
    "a variable of ours": (
        a_job().container(env=[{"name": "RANK", "value": "0"}]),
        "Error: spec.template.spec.containers[trainer].env: RANK is set by the operator; remove it",
    ),
    "a template left empty": (
        a_job().spec(template={"spec": None}),
        "Error: spec.template.spec.containers: at least one container is needed",
    ),
}


@pytest.mark.parametrize(("manifest", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_is_a_sentence(manifest: JobBuilder | dict[str, Any] | str, message: str) -> None:
    result = render(manifest)

    assert result.exit_code == 1
    assert result.stderr.startswith(message)
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)


def test_all_mistakes_at_once_a_line_each() -> None:
    result = render(a_job().spec(worker=2, replicas=0))

    assert result.stderr.splitlines() == [
        "Error: spec.replicas: Input should be greater than or equal to 1",
        "spec.worker: Extra inputs are not permitted",
    ]


def test_a_file_that_is_not_there() -> None:
    result = CliRunner().invoke(main, ["render", "-f", "/nowhere.yaml"])

    assert result.exit_code == 2
    assert "No such file" in result.stderr


def test_the_version() -> None:
    assert __version__ in CliRunner().invoke(main, ["--version"]).output

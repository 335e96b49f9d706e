"""``dtj convert``: manifests on standard output, differences on standard error, an exit status for scripts."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dtj.cli.main import main
from tests.unit.convert.manifests import SAMPLES, a_pod, a_pytorch_job, a_runtime, a_runtime_job, a_train_job


def convert(*documents: dict[str, Any], text: str | bytes = "") -> Result:
    return CliRunner().invoke(main, ["convert"], input=text or yaml.safe_dump_all(documents))


def manifests(result: Result) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(result.stdout))


def test_a_job_that_behaves_as_before() -> None:
    result = convert(a_pytorch_job())

    assert result.exit_code == 0, result.output
    [manifest] = manifests(result)
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("DistributedTrainingJob", "digits")
    assert [line.split(": ")[:2] for line in result.stderr.splitlines()] == [["note", "PyTorchJob/digits"]]


def test_something_dropped_is_told_on_a_line_and_in_the_exit_status() -> None:
    result = convert(a_pytorch_job(hurry=True))

    assert result.exit_code == 3
    assert manifests(result)
    assert (
        "dropped: PyTorchJob/digits: spec.hurry: not carried over: this converter does not know the field"
        in result.stderr.splitlines()
    )


def test_a_result_that_would_be_refused_is_shown_and_told() -> None:
    result = convert(a_pytorch_job(a_pod("pytorch", "python", "train.py"), nprocPerNode="2048"))

    assert result.exit_code == 3
    assert manifests(result)
    assert "refused: DistributedTrainingJob/digits: spec.processesPerReplica: Input should be" in result.stderr


def test_several_files_with_several_jobs(tmp_path: Path) -> None:
    job = a_train_job("ours")
    runtime = a_runtime({"torch": {}}, a_runtime_job("node", a_pod("node", "torchrun", "train.py")))
    for name, documents in (("job", [job, a_pytorch_job()]), ("runtime", [runtime])):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    files = [option for name in ("job", "runtime") for option in ("-f", str(tmp_path / f"{name}.yaml"))]
    result = CliRunner().invoke(main, ["convert", *files])

    assert result.exit_code == 0, result.output
    assert len(manifests(result)) == 2


def test_other_objects_are_left_alone() -> None:
    result = convert({"kind": "ConfigMap", "metadata": {"name": "settings"}}, a_pytorch_job())

    assert result.exit_code == 0, result.output
    assert "note: ConfigMap/settings: is no training job: apply it as it is" in result.stderr.splitlines()


def test_render_takes_what_convert_prints() -> None:
    converted = convert(text=(SAMPLES / "pytorch-everything.yaml").read_bytes())
    rendered = CliRunner().invoke(main, ["render"], input=converted.stdout)

    assert rendered.exit_code == 0, rendered.output
    assert [each["metadata"]["name"] for each in manifests(rendered)] == [
        "whole-digits-workers",
        "whole-digits-master-0",
        "whole-digits-worker-0",
        "whole-digits-worker-1",
    ]


HOLDS_ITSELF = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Worker:
      template: {spec: {containers: [{name: a, x: &x [*x]}]}}
"""

WRONG: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("# nothing", "Error: nothing to convert: none of the objects is a PyTorchJob, "),
    "no YAML": ("a: [", "Error: standard input: not YAML: "),
    "no text": (b"\xff\xfe\n", "Error: standard input: not YAML: "),
    "a word": ("hello", "Error: standard input: expected Kubernetes objects"),
    "another group": ("{apiVersion: batch/v1, kind: PyTorchJob}", "Error: nothing to convert: "),
    "a job of ours": ("{apiVersion: dtj.dev/v1alpha1, kind: DistributedTrainingJob}", "Error: nothing to convert: "),
    "no pods": ("{apiVersion: kubeflow.org/v1, kind: PyTorchJob}", "Error: PyTorchJob/without a name: spec."),
    "a kind that is a list": ("{apiVersion: kubeflow.org/v1, kind: [a]}", "Error: nothing to convert: "),
    "a job that holds itself": (HOLDS_ITSELF, "Error: PyTorchJob/without a name: nested too deeply"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_read_is_a_sentence(text: str | bytes, message: str) -> None:
    result = convert(text=text)

    assert result.exit_code == 1
    assert result.stderr.startswith(message)
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)


def test_control_characters_do_not_reach_the_terminal() -> None:
    result = convert({**a_pytorch_job(), "metadata": {"name": "a\x1b[2J\nb"}})

    assert "\x1b" not in result.stderr
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["note", "dropped"]


def test_a_file_that_is_not_there() -> None:
    result = CliRunner().invoke(main, ["convert", "-f", "/nowhere.yaml"])

    assert result.exit_code == 2
    assert "No such file" in result.stderr


def test_the_help_explains_the_exit_status() -> None:
    result = CliRunner().invoke(main, ["convert", "--help"])

    assert "Exit status: 0, all was carried over" in result.output

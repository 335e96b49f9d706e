"""Other operators' training jobs as DistributedTrainingJobs. Pure: old manifests in, new manifests and notes out."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dtj.convert import mpi_job, pytorch_job, runtime, tf_job, train_job
from dtj.convert.assemble import Converted
from dtj.convert.notes import ConversionError

_KUBEFLOW = "kubeflow.org/"
_TRAINER = "trainer.kubeflow.org/"
_BY_KIND = {
    pytorch_job.KIND: pytorch_job.convert,
    tf_job.KIND: tf_job.convert,
    mpi_job.KIND: mpi_job.convert,
}
KINDS = (*_BY_KIND, train_job.KIND)


class Conversion(NamedTuple):
    """The jobs of an input, and the names of the objects in it that are none."""

    jobs: tuple[Converted, ...]
    passed_over: tuple[str, ...]


def convert(documents: Sequence[dict[str, Any]]) -> Conversion:
    """Convert every training job among some objects; raise ConversionError where one can't be read."""
    runtimes = [each for each in documents if _is(each, _TRAINER, runtime.KINDS)]
    jobs: list[Converted] = []
    passed_over: list[str] = []
    for document in documents:
        try:
            if _is(document, _KUBEFLOW, tuple(_BY_KIND)):
                jobs.append(_BY_KIND[document["kind"]](document))
            elif _is(document, _TRAINER, (train_job.KIND,)):
                jobs.append(train_job.convert(document, runtimes))
            elif document not in runtimes:
                passed_over.append(_name(document))
        except RecursionError as error:
            raise ConversionError(f"{_name(document)}: nested too deeply") from error
    return Conversion(tuple(jobs), tuple(passed_over))


def _is(document: dict[str, Any], group: str, kinds: tuple[str, ...]) -> bool:
    return document.get("kind") in kinds and str(document.get("apiVersion", "")).startswith(group)


def _name(document: dict[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{document.get('kind', 'an object without a kind')}/{name or 'without a name'}"

"""``dtj convert``: other operators' jobs as DistributedTrainingJobs."""

import sys
from typing import Any, NoReturn

import click

from dtj.convert import KINDS, Conversion
from dtj.convert import convert as convert_documents
from dtj.convert.assemble import refusals
from dtj.convert.documents import read_documents, write_documents
from dtj.convert.notes import ConversionError, Severity

BEHAVES_DIFFERENTLY = 3
"""Exit status when something that changes what the job does could not be carried over."""


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    type=click.File("rb"),
    multiple=True,
    default=("-",),
    help="Manifests; may be given several times; standard input by default.",
)
def convert(files: tuple[Any, ...]) -> None:
    """Print Kubeflow's training jobs as DistributedTrainingJobs.

    Reads PyTorchJob, TFJob and MPIJob, and TrainJob together with its TrainingRuntime or ClusterTrainingRuntime. Each
    thing that is not as it was gets a line on standard error: what it was, what became of it, what to do instead.

    Exit status: 0, all was carried over, or only "note" lines tell what is different; 3, something that changes what
    the job does was not ("dropped"), or this version would refuse the result ("refused"); 1, the input can't be read.
    """
    try:
        conversion = convert_documents([document for file in files for document in _read(file)])
    except ConversionError as error:
        _fail(str(error))
    if not conversion.jobs:
        _fail(f"nothing to convert: none of the objects is a {', '.join(KINDS[:-1])} or {KINDS[-1]} of kubeflow.org")
    sys.stdout.write(write_documents(job.manifest for job in conversion.jobs))
    if _explain(conversion):
        sys.exit(BEHAVES_DIFFERENTLY)


def _read(file: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - click's file type
    try:
        return read_documents(file.read())
    except ConversionError as error:
        name = getattr(file, "name", "<stdin>")
        raise ConversionError(f"{'standard input' if name == '<stdin>' else name}: {error}") from error


def _explain(conversion: Conversion) -> bool:
    """Say what is different; return whether any of it changes what a job does."""
    serious = False
    for name in conversion.passed_over:
        _say(f"{Severity.NOTE}: {name}: is no training job: apply it as it is")
    for job in conversion.jobs:
        refused = refusals(job.manifest)
        serious |= bool(refused) or any(note.severity is Severity.DROPPED for note in job.notes)
        for note in job.notes:
            _say(str(note))
        for sentence in refused:
            _say(f"refused: {_new_name(job.manifest)}: {sentence}")
    return serious


def _new_name(manifest: dict[str, Any]) -> str:
    metadata = manifest["metadata"]
    return f"{manifest['kind']}/{metadata.get('name') or metadata.get('generateName') or 'without a name'}"


def _say(sentence: str) -> None:
    click.echo(_printable(sentence), err=True)


def _fail(sentence: str) -> NoReturn:
    raise click.ClickException("\n".join(_printable(line) for line in sentence.splitlines()))


def _printable(line: str) -> str:
    """One line, whatever control characters the input held."""
    return "".join(each if each.isprintable() else " " for each in line)

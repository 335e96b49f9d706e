"""``dtj operator debug``: what the operator in this pod knows of a job. It has no other program that could ask."""

import http.client
from typing import Final
from urllib.parse import quote

import click

from dtj.controller.debug import ADDRESS, PORT

TIMEOUT: Final = 10.0


@click.command()
@click.argument("job", required=False, metavar="[NAMESPACE/NAME]")
@click.option("--debug-port", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="Port to ask.")
def debug(job: str | None, debug_port: int) -> None:
    """Print what the running operator knows of a job, and what it would do now; without a job, which it knows.

    Run it in the operator's pod, where the operator was started with --debug-endpoint.
    """
    code, text = _ask(debug_port, _path(job))
    if code != http.client.OK:
        raise click.ClickException(text.strip())
    click.echo(text, nl=False)


def _path(job: str | None) -> str:
    if job is None:
        return "/debug/"
    namespace, slash, name = job.partition("/")
    if not slash or not namespace or not name:
        raise click.UsageError(f"{job}: say NAMESPACE/NAME")
    return f"/debug/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}"


def _ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=TIMEOUT)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        where = f"{ADDRESS}:{port}"
        raise click.ClickException(
            f"nothing answers at {where} ({error}); start the operator with --debug-endpoint"
        ) from error
    finally:
        connection.close()

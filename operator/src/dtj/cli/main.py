"""``dtj``: run the operator, see what it would do, or come from another one."""

import click

from dtj import __version__
from dtj.cli.convert import convert
from dtj.cli.operator import operator
from dtj.cli.render import render


@click.group()
@click.version_option(__version__)
def main() -> None:
    """Distributed training jobs on Kubernetes."""


main.add_command(operator)
main.add_command(render)
main.add_command(convert)

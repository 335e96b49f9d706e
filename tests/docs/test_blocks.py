"""Every command of the pages is executed by a test, or stands in a table that says what checks it instead."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, REPOSITORY, Block, Command, all_blocks, blocks_of
from tests.docs.not_executed import NOT_EXECUTED
from tests.docs.on_a_cluster import PREPARED, needs_no_cluster, rendering
from tests.docs.shape import is_like, shows_in_order

COMMANDS = [(block, command) for block in all_blocks() for command in block.commands]
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
TIMEOUT = 60

PAGE = """\
# Title

```sh
make all   # a remark
kubectl get pods -l 'a # b' \\
  --watch
cat <<END
two words
END
```

## Section

- in a list

  ```console
  $ kubectl get dtj
  NAME   PHASE
  one    Running
  $ true
  ```

```yaml
kind: Job
```
"""


def test_a_page_is_read_as_commands_and_their_output() -> None:
    script, console = blocks_of("page.md", PAGE)
    assert (script.heading, script.line, console.heading, console.line) == ("Title", 4, "Section", 17)
    assert [command.text for command in script.commands] == [
        "make all",
        "kubectl get pods -l 'a # b' \\\n  --watch",
        "cat <<END\ntwo words\nEND",
    ]
    assert console.commands == (Command("kubectl get dtj", "NAME   PHASE\none    Running"), Command("true"))


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("digits  Running  2/2  34s\n", "digits   Running   1/2   1m5s", True),
        ("at 2026-11-21T14:08:18Z on node-1", "at 2026-01-01T00:00:00Z on node-2", True),
        ("digits Running", "digits Failed", False),
        ("one\ntwo", "one", False),
        ("one\ntwo\nthree", "one\n...\nthree", True),
        ("one\ntwo\nfour", "one\n...\nthree", False),
        ("one", "one\n...\none", False),
        ("", "", True),
    ],
)
def test_output_is_compared_by_its_words(printed: str, shown: str, same: bool) -> None:
    assert is_like(printed, shown) is same


def test_what_is_watched_may_print_more_between() -> None:
    shown = "NAME PHASE\none Starting 0/2\none Running 0/2\none Running 2/2\none Succeeded 0/2"
    assert shows_in_order("NAME PHASE\none\none Starting 0/2\none Running 2/2\none Pending\none Succeeded 0/2", shown)
    assert not shows_in_order("NAME PHASE\none Running 2/2\none Starting 0/2\none Succeeded 0/2", shown)


@pytest.mark.parametrize(
    ("typed", "executed"),
    [
        (
            "helm upgrade --install dtj helm/dtj-operator --wait \\\n  --set a=b",
            "helm template dtj helm/dtj-operator --set a=b --kube-version 1.30 > /dev/null",
        ),
        ("true\nhelm upgrade x y", "true\nhelm template x y --kube-version 1.30 > /dev/null"),
        ("kubectl get \\\n  pods", "kubectl get \\\n  pods"),
    ],
)
def test_an_installation_is_rendered_where_the_release_must_stay(typed: str, executed: str) -> None:
    assert rendering(typed) == executed


@pytest.mark.parametrize(("block", "command"), COMMANDS, ids=[f"{block}-{each.text}" for block, each in COMMANDS])
def test_a_command_is_executed_or_in_the_table(block: Block, command: Command) -> None:
    executed = needs_no_cluster(command) or block.page in PREPARED
    assert (command.text in NOT_EXECUTED) or executed, (
        f"{block}: `{command.text}` is executed by no test: give {block.page} a row in tests/docs/on_a_cluster.py, "
        "or the command one in tests/docs/not_executed.py"
    )


@pytest.mark.parametrize("text", NOT_EXECUTED)
def test_the_table_lists_only_commands_of_the_pages(text: str) -> None:
    assert text in {command.text for _, command in COMMANDS}


@pytest.mark.parametrize("by", sorted({elsewhere.checked_by for elsewhere in NOT_EXECUTED.values()}))
def test_what_checks_a_command_instead_exists(by: str) -> None:
    assert by.removeprefix("make ") in TARGETS if by.startswith("make ") else (REPOSITORY / by).is_file()


@pytest.mark.parametrize("page", PREPARED)
def test_pages_that_a_cluster_is_prepared_for_have_commands_for_it(page: str) -> None:
    headings = {block.heading for block in blocks_of(page)}
    assert page in PAGES
    assert headings
    assert set(PREPARED[page]) <= headings


@pytest.mark.parametrize("command", sorted({each.text for _, each in COMMANDS if needs_no_cluster(each)}))
def test_a_command_that_needs_no_cluster_works(command: str) -> None:
    folders = [Path(program).parent for program in (sys.executable, os.environ.get("UV", sys.executable))]
    programs = {"PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=REPOSITORY,
        env={**os.environ, **programs},
        text=True,
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout

"""What the documents say is true where a program can tell: links, snippets, commands, words, numbers, versions."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import dtj
from dtj.api import names
from dtj.api.job import DistributedTrainingJob
from dtj.api.reasons import Reason
from dtj.api.status import FailureClass, Phase
from dtj.lifecycle.failure import Candidate
from dtj.lifecycle.restart_policy import Verdict, verdict_on
from dtj.plan.validation import mistakes_in
from tests.builders import NOW, a_job, a_pod

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "operator" / "src" / "dtj"
CHART = REPOSITORY / "helm" / "dtj-operator"
PACKAGES = ("operator/pyproject.toml", "trainer_images/lib/pyproject.toml")
FOLDERS = ("docs", "operator", "trainer_images", "tests", "helm", "examples")
DOCUMENTS = {
    str(path.relative_to(REPOSITORY)): path.read_text(encoding="utf-8")
    for path in sorted(
        [*REPOSITORY.glob("*.md"), *(found for top in FOLDERS for found in (REPOSITORY / top).rglob("*.md"))]
    )
}
WRITTEN_BY_HAND = {name: text for name, text in DOCUMENTS.items() if not name.startswith("docs/reference/")}

LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
MAKE = re.compile(r"(?:^|`)(?:\w+=\S+ )*make ((?:[a-z][a-z0-9-]* ?)+)", re.MULTILINE)
REASON_IN_CODE = re.compile(r"\bReason\.([A-Z_]+)\b")


def links() -> Iterator[tuple[str, str]]:
    for name, text in DOCUMENTS.items():
        for target in LINK.findall(FENCED.sub("", text)):
            if "://" not in target:
                yield name, target


def snippets() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, text in WRITTEN_BY_HAND.items():
        for language, code in FENCED.findall(text):
            if language == "yaml":
                yield from ((name, each) for each in yaml.safe_load_all(code) if each.get("kind") == names.KIND)


def anchors(text: str) -> set[str]:
    """The identifiers that headings get in rendered Markdown."""
    headings = HEADING.findall(FENCED.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def reasons_that_can_show() -> set[Reason]:
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py") if path.name != "reasons.py")
    return {Reason[word] for word in REASON_IN_CODE.findall(text) if word in Reason.__members__}


@pytest.mark.parametrize(("document", "target"), sorted(set(links())))
def test_relative_links_lead_somewhere(document: str, target: str) -> None:
    path, _, anchor = target.partition("#")
    found = (REPOSITORY / document).parent / path if path else REPOSITORY / document
    assert found.exists()
    assert not anchor or anchor in anchors(found.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("document", "manifest"),
    [pytest.param(*each, id=f"{each[0]}-{each[1]['metadata']['name']}") for each in snippets()],
)
def test_the_operator_accepts_the_jobs_shown(document: str, manifest: dict[str, Any]) -> None:
    assert mistakes_in(DistributedTrainingJob.model_validate(manifest)) == (), document


@pytest.mark.parametrize("document", ["README.md", "docs/quick-start.md"])
def test_there_are_jobs_to_check(document: str) -> None:
    assert document in {name for name, _ in snippets()}


@pytest.mark.parametrize("name", WRITTEN_BY_HAND)
def test_make_commands_exist(name: str) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    mentioned = {target for words in MAKE.findall(WRITTEN_BY_HAND[name]) for target in words.split()}
    assert mentioned <= targets


@pytest.mark.parametrize("reason", sorted(reasons_that_can_show()))
def test_troubleshooting_knows_every_reason(reason: Reason) -> None:
    assert f"`{reason}`" in DOCUMENTS["docs/troubleshooting.md"]


def test_troubleshooting_knows_no_reason_that_never_shows() -> None:
    never = set(Reason) - reasons_that_can_show()
    assert not {reason for reason in never if f"| `{reason}`" in DOCUMENTS["docs/troubleshooting.md"]}


@pytest.mark.parametrize("phase", Phase)
def test_the_readme_explains_every_phase(phase: Phase) -> None:
    assert f"\n| {phase} | " in DOCUMENTS["README.md"]


def verdict(failure_class: FailureClass, *, restarts_in_a_row: int = 0) -> Verdict:
    """What happens after a failure of a job without rules and without an end to its restarts."""
    job = a_job().spec(failurePolicy={"maxRestarts": 100}).begun().build()
    status = job.status.model_copy(update={"restarts_since_progress": restarts_in_a_row})
    cause = Candidate(a_pod(job, 0).build(), NOW, Reason.POD_FAILED, failure_class, "")
    return verdict_on(cause, job.model_copy(update={"status": status}), NOW)


def test_the_documented_actions_are_those_taken() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `(\w+)`", DOCUMENTS["docs/concepts.md"], re.MULTILINE)
    documented = {name: action for name, action in rows if name in set(FailureClass)}
    assert documented == {str(each): str(verdict(each).action) for each in FailureClass}


def test_the_documented_backoff_is_that_waited() -> None:
    row = re.compile(r"^\| (?:`restartsSinceProgress` before|seconds until)[^|]* \| (.+) \|$", re.MULTILINE)
    in_a_row, seconds = (
        [int(number) for number in re.findall(r"\d+", cells)] for cells in row.findall(DOCUMENTS["docs/concepts.md"])
    )
    waited = [verdict(FailureClass.APPLICATION, restarts_in_a_row=count).backoff_seconds for count in in_a_row]
    assert seconds == waited != []


def test_one_version_everywhere() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    newest = re.findall(r"^## \[?(\d+\.\d+\.\d+)", DOCUMENTS["CHANGELOG.md"], re.MULTILINE)[0]
    packages = [tomllib.loads((REPOSITORY / each).read_text())["project"]["version"] for each in PACKAGES]
    installing = DOCUMENTS["README.md"] + DOCUMENTS["docs/operations.md"]
    images = re.findall(r"(?:dtj-operator:|image\.tag=)([\w.]+)", installing)
    assert len(images) > 1
    assert {newest, chart["version"], chart["appVersion"], *packages, *images} == {dtj.__version__}


def test_the_documented_rights_are_those_of_the_chart() -> None:
    rules = yaml.safe_load(re.sub(r"\{\{.*?\}\}", "", (CHART / "templates" / "_rights.tpl").read_text()))
    granted = {(name, verb) for rule in rules for name in rule["resources"] for verb in rule["verbs"]}
    rows = re.findall(r"^\| ((?:`[a-z/]+`(?:, )?)+) \| ([a-z, ]+) \|", DOCUMENTS["docs/concepts.md"], re.MULTILINE)
    documented = ((name, verbs) for cell, verbs in rows for name in re.findall(r"`([a-z/]+)`", cell))
    assert {(name, verb) for name, verbs in documented for verb in verbs.split(", ")} == granted

"""The site, as `make docs` builds it: every page that docs/index.md links, warnings and broken links being errors.

The source folder is the root of the repository, so the same relative links work in the site and in the repository.
"""

import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "dtj"
html_title = "dtj"
extensions = ["myst_parser"]
myst_heading_anchors = 4
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "trainer_images/**.md", "tests/cluster/README.md"]
exclude_patterns = ["**/.*", "build", "operator", "helm"]
nitpicky = True

html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

SECTION = re.compile(r"^## (.+)\n\n((?:- .+\n)+)", re.MULTILINE)
LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\.md\)")
ENTRANCE = '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><title>dtj</title>\n'


def add_navigation(_app: Sphinx, document: str, source: list[str]) -> None:
    """The lists of the start page are the navigation too: a table of contents in MyST's syntax is noise elsewhere."""
    if document == root_doc:
        source[0] += "".join(
            f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(LINK.findall(links)) + "\n```\n"
            for caption, links in SECTION.findall(source[0])
        )


def add_entrance(app: Sphinx, failure: Exception | None) -> None:
    if failure is None:
        Path(app.outdir, "index.html").write_text(ENTRANCE, encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.add_lexer("mermaid", TextLexer)  # drawing it takes a script from another host: the text can be read as well
    app.connect("source-read", add_navigation)
    app.connect("build-finished", add_entrance)

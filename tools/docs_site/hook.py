"""Called by MkDocs (mkdocs.yml, hooks): adds pages, and adapts each page's links and lists."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # MkDocs loads this file by its path

from mkdocs.structure.files import File

from tools.docs_site.links import deepen_lists, move_links, plain_fences
from tools.docs_site.pages import API, added_pages, place

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_added = added_pages()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the added pages into the navigation, where it names their folders."""
    examples = [page for page in _added if page.startswith("examples/")]
    folders = {
        "api/": ["api/README.md", *({API[page][0]: f"api/{page}.md"} for page in API)],
        "examples/": ["examples/README.md", *examples[1:]],
    }
    for section in config.nav or []:
        for pages in section.values() if isinstance(section, dict) else ():
            for entry in pages:
                if isinstance(entry, dict):
                    entry.update({k: folders[v] for k, v in entry.items() if v in folders})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    for page, (text, _) in _added.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn GitHub's Markdown into MkDocs'."""
    name = page.file.src_uri
    source = _added[name][1] if name in _added else f"docs/{name}"
    if not source.startswith(("docs/api/", "docs/examples/")):
        markdown = move_links(markdown, source, name, place)
    return deepen_lists(plain_fences(markdown))

"""The documentation site: it contains every page, and renders Markdown as GitHub does."""

import re
from pathlib import Path

import pytest

from tools.docs_site.links import deepen_lists, move_links, plain_fences
from tools.docs_site.pages import API, added_pages, place

ROOT = Path(__file__).parents[2]
NAVIGATION = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


def test_every_page_is_in_the_navigation_once():
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    others = {page for page in added_pages() if not page.startswith(("api/", "examples/"))}
    assert sorted(NAVIGATION) == sorted(pages | others)


def test_every_public_module_is_in_the_api_reference():
    surface = (ROOT / "tests" / "golden" / "public_surface.txt").read_text()
    modules = set(re.findall(r"^module ([\w.]+)", surface, re.MULTILINE))
    named = {name for _, names in API.values() for name in names}
    through_the_root = {"aiokafka_lite", "aiokafka_lite.consumer", "aiokafka_lite.producer"}
    through_the_root |= {"aiokafka_lite.share", "aiokafka_lite.admin.config_resource"}
    one_for_all = {name for name in modules if name.startswith("aiokafka_lite.coordinator.")}
    assert modules - named - through_the_root - one_for_all == set()


def test_every_example_has_a_page():
    pages = added_pages()
    for path in (ROOT / "examples").glob("*.py"):
        text, _ = pages[f"examples/{path.name}.md"]
        assert path.read_text().strip() in text
        assert f"]({path.name}.md)" in pages["examples/README.md"][0]


@pytest.mark.parametrize(
    ("source", "page", "link", "moved"),
    [
        ("docs/consumer.md", "consumer.md", "[a](producer.md#monitor)", "[a](producer.md#monitor)"),
        ("docs/consumer.md", "consumer.md", "[a](#monitor)", "[a](#monitor)"),
        ("docs/consumer.md", "consumer.md", "[a](../CHANGELOG.md)", "[a](changelog.md)"),
        ("docs/consumer.md", "consumer.md", "[a](../examples)", "[a](examples/README.md)"),
        (
            "docs/consumer.md",
            "consumer.md",
            "[`a`](../examples/worker.py)",
            "[`a`](examples/worker.py.md)",
        ),
        ("docs/a.md", "a.md", "[a](../benchmarks/README.md#b)", "[a](benchmarks.md#b)"),
        ("docs/a.md", "a.md", "[a](../README.md#install)", "[a](overview.md#install)"),
        ("docs/a.md", "a.md", "![a](send-and-wait.svg)", "![a](send-and-wait.svg)"),
        (
            "docs/a.md",
            "a.md",
            "[over\ntwo lines](../CHANGELOG.md)",
            "[over\ntwo lines](changelog.md)",
        ),
        ("docs/a.md", "a.md", "[a](../tests/conformance/differences.py)", "a"),
        ("CHANGELOG.md", "changelog.md", "[a](docs/admin.md)", "[a](admin.md)"),
        ("benchmarks/README.md", "benchmarks.md", "[a](../docs/spark.md#b)", "[a](spark.md#b)"),
    ],
)
def test_links_lead_to_the_pages_of_the_site(source: str, page: str, link: str, moved: str):
    assert move_links(f"See {link}.", source, page, place) == f"See {moved}.\n"


def test_links_in_code_are_left_alone():
    code = "```sh\n[a](../CHANGELOG.md)\n```\n"
    assert move_links(code, "docs/a.md", "a.md", place) == code


def test_nested_lists_are_indented_by_four_columns():
    github = (
        "Text:\n- one\n  more of one\n  - two\n    more of two\n\n"
        "  ```sh\n  a\n    b\n  ```\n\nText\n  b"
    )
    site = (
        "Text:\n\n- one\n    more of one\n    - two\n        more of two\n\n"
        "    ```sh\n    a\n      b\n    ```\n\nText\n  b\n"
    )
    assert deepen_lists(github) == site


def test_code_blocks_keep_only_their_language():
    assert plain_fences("```python anyio\na = 1\n```\n") == "```python\na = 1\n```\n"

"""Writes the generated tables of docs/reference.md."""

from __future__ import annotations

import sys

from tools.reference_docs.exceptions import EXCEPTION_TABLES
from tools.reference_docs.options import OPTION_TABLES
from tools.tables import main

if __name__ == "__main__":
    sys.exit(main("tools.reference_docs", "reference.md", {**OPTION_TABLES, **EXCEPTION_TABLES}))

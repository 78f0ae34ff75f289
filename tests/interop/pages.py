"""The pages of the documentation that have snippets in Scala."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "scala.md"]
SNIPPET = re.compile(r"^```scala\n(.*?)^```$(?:\s*?^```text\n(.*?)^```$)?", re.M | re.S)


def program_of(page: Path, name: str) -> str:
    """A program that does what a page's snippets do, and returns what they print."""
    code = "".join(snippet for snippet, _ in SNIPPET.findall(page.read_text()))
    return f"""
        object {name} {{
          def run(spark: org.apache.spark.sql.SparkSession): String = {{
            val printed = new java.io.ByteArrayOutputStream
            Console.withOut(printed) {{
              {code}
            }}
            printed.toString
          }}
        }}
        """

"""Values as Python code, with what it has to import."""

from __future__ import annotations

import base64
import datetime
import math
import sys
from decimal import Decimal
from enum import Enum
from typing import Any

from pyspark.sql import Row

from keystate._worker.calls.sent import SentFunction
from keystate.errors import DeclarationError


class Literals:
    """Writes values; remembers the imports that they need."""

    def __init__(self) -> None:
        self._imports: set[str] = set()

    def imports(self) -> list[str]:
        """The import statements."""
        return sorted(self._imports, key=lambda line: (line.startswith("from"), line))

    def __call__(self, value: Any) -> str:
        """A value that a state or row can have."""
        if isinstance(value, Row):
            return self._row(value)
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self(k)}: {self(v)}' for k, v in value.items())}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(self, value))}]"
        if isinstance(value, tuple):
            return f"({', '.join(map(self, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if isinstance(value, Decimal):
            self._imports.add("from decimal import Decimal")
        elif isinstance(value, Enum):
            self._imports.add("from keystate import TimeDomain")
            return f"{type(value).__name__}.{value.name}"
        elif isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
            self._imports.add("import datetime")
        elif not isinstance(value, (str, bytes, bytearray, bool, int, float, type(None))):
            raise DeclarationError(f"as_test() can't write a {type(value).__name__} as code")
        return repr(value)

    def function(self, function: Any) -> str:
        """A user's function: imported, and made with the attributes that it has."""
        if isinstance(function, type) or hasattr(function, "__qualname__"):
            return self._imported(function)
        made = self._imported(type(function))
        if not vars(function):
            return f"{made}()"
        # Its class is imported from its module, so the test runs the code as it is.
        self._imports |= {"import base64", "import pickle"}
        sent = SentFunction.of(function)
        if sent.broadcasts:
            raise DeclarationError(
                f"as_test() is for functions without broadcast variables: {made}"
            )
        pickled = base64.b64encode(sent.data).decode()
        return f"pickle.loads(base64.b64decode({pickled!r}))"

    def _row(self, row: Row) -> str:
        self._imports.add("from pyspark.sql import Row")
        names = row.__fields__
        if all(name.isidentifier() for name in names):
            return f"Row({', '.join(f'{n}={self(v)}' for n, v in zip(names, row))})"
        return f"Row({', '.join(map(repr, names))})({', '.join(map(self, row))})"

    def _imported(self, thing: Any) -> str:
        module, name = thing.__module__, thing.__qualname__
        if module == "__main__" or "<" in name or module not in sys.modules:
            raise DeclarationError(
                f"a test can't import {name}: put it in a module, not in a script or notebook, and "
                "not in a function"
            )
        outermost = name.partition(".")[0]
        self._imports.add(f"from {module} import {outermost}")
        return str(name)

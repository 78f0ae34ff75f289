"""The error when a call's context is asked for a state, which only ``open`` can get."""

from __future__ import annotations

from typing import Any

from keystate.functions import RuntimeContext

#: What only the context of `open` has: states, metrics, the place of the subtask.
_OF_OPEN = frozenset(name for name in dir(RuntimeContext) if name.startswith("get_"))


class AskedInOpen:
    """A context that is not that of ``open``: what is asked for there is no attribute here."""

    def __getattr__(self, name: str) -> Any:
        if name in _OF_OPEN:
            kept = "state" if "state" in name else "it"
            raise AttributeError(
                f"ctx.{name}(...) is for open(self, ctx), which is called before the first row: "
                f"ask there, self.{kept} = ctx.{name}(...), and use self.{kept} here"
            )
        return object.__getattribute__(self, name)  # which says that there is none

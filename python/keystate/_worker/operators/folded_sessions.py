"""Sessions at work in a subtask whose rows are only added, by the user's function."""

from __future__ import annotations

from keystate._worker.operators.column_sessions import ColumnSessionsOperator
from keystate._worker.operators.folded_windows import FoldedWindowsOperator
from keystate._worker.state.folded_columns import FoldedSessionColumns


class FoldedSessionsOperator(FoldedWindowsOperator, ColumnSessionsOperator):
    """Sessions with one gap and their default trigger, of folds."""

    _state_class = FoldedSessionColumns

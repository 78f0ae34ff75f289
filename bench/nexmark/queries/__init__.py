"""The queries with Keystate's functions."""

from bench.nexmark.inputs import Way
from bench.nexmark.queries.joins import q3, q8, q20
from bench.nexmark.queries.rankings import q18, q18_by_columns, q19
from bench.nexmark.queries.windows import q5, q7, q11, q12
from bench.nexmark.queries.winners import q4, q6, q9

#: Row by row, and where that pays, by columns.
BY_ROWS = {
    query.__name__: Way(query) for query in (q3, q4, q5, q6, q7, q8, q9, q11, q12, q18, q19, q20)
}
BY_COLUMNS = {"q18": Way(q18_by_columns)}

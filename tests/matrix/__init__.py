"""Features in shapes of a plan, as one table: each cell is a query beside a plain Python model.

`features` is the table of functions with their models, `shapes` that of the places in a plan where
they stand. `cell` runs one feature, or some, in one shape: with a restart on other partitions and
another backend. It compares rows and operator state. Most defects that were found from outside sat
where a feature met a shape that nobody had tried.

    python -m tests.matrix --seconds 3600 --seed 1       random features, shapes and settings
"""

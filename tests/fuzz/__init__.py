"""A differential fuzzer: random programs against plain models that share no code with Keystate.

A seed is a program: declared states and what is done for each row, windows and their rules, or a
function of another class; with restarts, other partitions, changed types and changed rules. It is
run with one row a micro-batch and in large ones. The rule that both hold: *what is handed over by
update, add, put, yield, return, a side output, initial state or a default is taken as it is at that
moment*. In half of the programs functions change such objects afterwards: at once, by refilling one
scratch object, or when they go on with what they read.

    python -m tests.fuzz --seconds 3600 --seed 1000                 in the harness, without Spark
    python -m tests.fuzz --layer query --seconds 3600 --seed 1000   real queries: also backends,
                                                                    formats and sizes of caches
    KEYSTATE_NATIVE=0 python -m tests.fuzz ...                      without what is compiled

A difference is told with its seed, in the harness with a minimized program, and how to run it
again. A change of a generator makes other programs of all seeds: then find new ones for `FOUND`.

`program`, `values` generate and `model` tells what is right; `function`, `keyed` run it. `windows`,
`operators`, `chains`, `objects` and `pairs`, which are two operators by event time, have all four
for theirs. `checkpoints` runs queries, and then `tables`, `lost`, `replays` and `backups` do with
their checkpoints what users do; `keys` asks for keys of any names and types in every call that
takes one. `check` runs a seed in the harness, `query` in a query. `behaviours` draws cases that
Scala runs as well. Two watermarks, broadcast streams, processing time and triggers other than by
count and by event time are not in queries here; a change in place of what was read, without
`update`, is in neither: the docs promise nothing of it.

What it found in the harness when it was new, and by which seeds:

| Defect | Seeds |
|---|---|
| a list in a tuple changes in state after `update`, `put`, `add` | 11, 23, 63 |
| `update` of a list state by a generator that refills one object | 71, 131, 135 |
| the same where the list has a time to live that notes what is used | 2140, 2141 |
| results change after `yield` or `return` | 19, 55, 79 |
| windows: what was emitted, or a window's rows, change | 22, 54, 186 |
| open windows under new rules: fire again, or never go | 170, 246, 378 |
| sorted map `BYTEWISE`: dates and times before 1970 | 13, 96, 217 |
| `is_empty` of a sorted map makes its first entry live on | 341 |
| a field added in a nested struct is null, not its default | 17, 317 |
"""

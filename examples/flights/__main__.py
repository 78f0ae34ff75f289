"""The command: ``python -m examples.flights``."""

import argparse
from pathlib import Path
from time import perf_counter

import keystate
from pyspark.sql import SparkSession

from . import query
from .progress import follow
from .reference import differences
from .results import close_views, open_views
from .summary import headline, print_tables
from .workspace import Workspace


def main() -> None:
    """Prepares the input, runs or resumes the query, and shows what came out."""
    arguments = parse()
    workspace = Workspace(
        arguments.out,
        arguments.checkpoint or arguments.out / "checkpoint",
        arguments.days,
        arguments.days_per_file,
    )
    if arguments.fresh:
        workspace.clear()
    workspace.prepare()
    spark = session(arguments.partitions)
    begin = perf_counter()
    done, total = workspace.committed(), workspace.batches()
    print(f"{total} micro-batches to do." if not done else f"Resuming after {done} of {total}.")
    half = total // 2
    if done < half:
        follow(query.start(spark, workspace), stop_after=half)
        print(
            f"Stopped after {half} micro-batches. The query goes on with {arguments.then} "
            f"partitions in place of {arguments.partitions}; its state stays where it is."
        )
    spark.conf.set("spark.sql.shuffle.partitions", arguments.then)
    follow(query.start(spark, workspace))
    print(f"Streamed in {perf_counter() - begin:.0f} s.")
    if arguments.check:
        check(spark, workspace)
    open_views(spark, workspace)
    words = headline(spark)
    print(f"\n{words}")
    print_tables(spark)
    if not arguments.no_picture:
        draw(spark, workspace.out / "flights.png", words)
    close_views(spark)
    print(f"Every flight: {workspace.result}")
    spark.stop()


def session(partitions: int) -> SparkSession:
    """A quiet local session with ``partitions`` subtasks for the keyed query."""
    builder = SparkSession.builder.appName("flights").master("local[*]")
    builder = builder.config("spark.sql.shuffle.partitions", partitions)
    builder = builder.config("spark.ui.enabled", False).config("spark.log.level", "ERROR")
    return keystate.configure(builder).getOrCreate()


def check(spark: SparkSession, workspace: Workspace) -> None:
    """Fails unless the result equals the same computation in one batch of window functions."""
    result = spark.read.parquet(str(workspace.result))
    rows = differences(result, query.flights(spark, workspace))
    if rows:
        raise SystemExit(f"{rows} rows differ from the batch computation.")
    print(f"All {result.count():,} rows equal those of one batch with window functions.")


def draw(spark: SparkSession, path: Path, words: str) -> None:
    """Draws the picture, if there is something to draw with."""
    try:
        from .picture import save_picture
    except ImportError:
        print('For the picture: pip install "keystate[demo]"')
        return
    save_picture(spark, path, words)
    print(f"The picture:  {path}")


def parse() -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    add = parser.add_argument
    add("--out", type=Path, default=Path("out/flights"), help="folder for all files (%(default)s)")
    add("--checkpoint", type=Path, help="folder for the checkpoint (OUT/checkpoint)")
    add("--days", type=int, help="only the first DAYS days (the whole year)")
    add("--days-per-file", type=int, default=7, help="days in a micro-batch (%(default)s)")
    add("--partitions", type=int, default=2, help="subtasks of the keyed query (%(default)s)")
    add("--then", type=int, default=4, help="subtasks after the stop half way (%(default)s)")
    add("--fresh", action="store_true", help="delete what an earlier run left, do not resume it")
    add("--check", action="store_true", help="compare with a batch computation of the same rows")
    add("--no-picture", action="store_true", help="do not draw the picture")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""What it costs to keep a second driver away from a checkpoint.

``python -m bench.fence``; see README.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.session import bench_session

LOOKS_PER_BATCH = 2  # as it begins and before its end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--looks", type=int, default=2000)
    looks = parser.parse_args().looks
    with bench_session() as (spark, folder):
        jvm: Any = spark._jvm
        owner = jvm.org.apache.spark.sql.keystate.files.CheckpointOwner
        checkpoint = jvm.org.apache.hadoop.fs.Path(f"file:{folder}/checkpoint")
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        takes = [timed(lambda: owner.take(checkpoint, conf, "bench"), 1) for _ in range(50)]
        nothing = jvm.java.lang.System
        # In turns; a call of nothing costs the way from Python to the JVM and back.
        pairs = [
            (timed(lambda: owner.check(checkpoint), looks), timed(nothing.nanoTime, looks))
            for _ in range(5)
        ]
        look = statistics.median(with_look - without for with_look, without in pairs)
        owner.release(checkpoint, "bench")
    print(f"taking a checkpoint, once a start: {statistics.median(takes) * 1e3:.2f} ms")
    print(f"a look: {look * 1e6:.0f} us, a micro-batch: {LOOKS_PER_BATCH * look * 1e3:.3f} ms")


def timed(call: Callable[[], Any], times: int) -> float:
    """Seconds a call."""
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


if __name__ == "__main__":
    main()

"""Spark's daemon of Python workers, which has imported what all workers of these tests need.

A worker is a fork of it. Spark itself imports nothing beforehand, because libraries may start
threads, and a fork has only one of them; here it is checked that there is only one. Then a worker
takes a fifth of the CPU time until it has read its first row.
"""

import gc
import os
import sys

# PySpark's zip, which Spark puts before the installed package, has no compiled modules.
sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
# Or NumPy and Arrow would start threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

import keystate._worker.task  # noqa: E402, F401
import pandas  # noqa: E402, F401 (Arrow imports it as soon as it makes an array)
import pyarrow.compute  # noqa: E402, F401
import pyspark.worker  # noqa: E402, F401
from pyspark import daemon  # noqa: E402

if __name__ == "__main__":
    threads = os.listdir("/proc/self/task") if os.path.exists("/proc/self/task") else []
    if len(threads) > 1:
        raise SystemExit(f"{len(threads)} threads after the imports: workers can't be forked")
    gc.freeze()  # or each fork looks through all of this, and copies its pages, when a task ends
    daemon.manager()

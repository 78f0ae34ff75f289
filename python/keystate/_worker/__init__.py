"""The code that runs in Spark's Python workers. Nothing here imports py4j."""

#!/usr/bin/env bash
# The same application by spark-submit alone: submit.sh API_SERVER, as in k8s://https://host:6443
set -euo pipefail
state=org.apache.spark.sql.keystate
local=spark.kubernetes.executor.volumes.emptyDir.spark-local-dir-1
exec spark-submit \
  --master "$1" \
  --deploy-mode cluster \
  --name keystate-app \
  --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0,org.apache.hadoop:hadoop-aws:3.5.0 \
  --conf spark.jars.ivy=/tmp/.ivy2 \
  --conf spark.kubernetes.container.image=REGISTRY/keystate-app:1 \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName=spark \
  --conf spark.kubernetes.driver.podTemplateFile="$(dirname "$0")/driver-pod.yaml" \
  --conf spark.kubernetes.executor.podTemplateFile="$(dirname "$0")/executor-pod.yaml" \
  --conf spark.driver.cores=1 \
  --conf spark.driver.memory=2g \
  --conf spark.executor.instances=4 \
  --conf spark.executor.cores=2 \
  --conf spark.executor.memory=4g \
  --conf spark.executor.memoryOverhead=2g \
  --conf "$local.mount.path=/var/data/spark" \
  --conf "$local.options.sizeLimit=20Gi" \
  --conf spark.decommission.enabled=true \
  --conf spark.storage.decommission.enabled=true \
  --conf spark.storage.decommission.shuffleBlocks.enabled=true \
  --conf "spark.sql.extensions=$state.KeystateExtension" \
  --conf "spark.sql.streaming.stateStore.providerClass=$state.KeyGroupStateStoreProvider" \
  --conf "spark.sql.streaming.streamingQueryListeners=$state.RescaleOnRestart" \
  --conf "spark.sql.streaming.checkpointFileManagerClass=$state.KeystateCheckpointFileManager" \
  --conf "spark.sql.catalog.keystate=$state.KeystateCatalog" \
  --conf spark.keystate.backend=rocksdb \
  local:///opt/app/main.py kafka:9092 clicks counts s3a://BUCKET/checkpoints/clicks --partitions 8

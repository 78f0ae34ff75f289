package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.keystate.store.{KeyGroupStateStore, StoredSubtask}

/** A subtask of a stream's micro-batch, for what rides on it. */
private[operator] final class StreamSubtask(
    override val store: KeyGroupStateStore,
    val task: OperatorTaskContext
) extends StoredSubtask

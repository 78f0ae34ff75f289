package org.apache.spark.sql.keystate.jvm.state

import keystate.backend.Entry
import keystate.errors.KeystateErrors
import keystate.{BroadcastState, MapEntry}
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.state.{BroadcastEntries, MapKeyCodec}

/** A broadcast state of a JVM function. It reads and writes its entries directly.
  *
  * @param writable
  *   whether a broadcast element is being processed, so that the state may be changed
  */
private[keystate] final class JvmBroadcastState(
    declared: JvmStateSpec,
    cursor: CurrentKey,
    writable: () => Boolean
) extends BroadcastState[Any, Any] {
  private val spec = declared.spec
  private val userKeys = new MapKeyCodec(spec, new ObjectCodec(declared.key.get))
  private val valueCodec = new ObjectCodec(declared.value)
  private var current: BroadcastEntries = _

  /** Begins a task. */
  def enter(entries: BroadcastEntries): Unit = current = entries

  private def stored: BroadcastEntries = {
    cursor.checkCaller(s"Broadcast state '${spec.name}'")
    current
  }

  override def get(key: Any): Any = {
    val bytes = stored.get(userKeys.encode(key))
    if (bytes == null) null else valueCodec.decode(bytes)
  }

  override def contains(key: Any): Boolean = stored.get(userKeys.encode(key)) != null

  override def entries(): Iterable[MapEntry[Any, Any]] = stored.entries(entry)

  private def entry(found: Entry): MapEntry[Any, Any] =
    MapEntry(userKeys.decode(found.key, 0), valueCodec.decode(found.value))

  override def isEmpty(): Boolean = stored.isEmpty

  override def put(key: Any, value: Any): Unit = {
    checkWritable()
    val at = userKeys.encode(key)
    stored.put(at, KeystateErrors.inState(spec.name, spec.describe)(valueCodec.encode(value)))
    cursor.updated += 1
  }

  override def remove(key: Any): Unit = {
    checkWritable()
    stored.remove(userKeys.encode(key))
    cursor.removed += 1
  }

  override def clear(): Unit = {
    checkWritable()
    cursor.removed += stored.clear()
  }

  private def checkWritable(): Unit =
    if (!writable()) throw KeystateErrors.broadcastReadOnly(spec.name)
}

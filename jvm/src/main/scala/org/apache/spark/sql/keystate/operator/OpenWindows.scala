package org.apache.spark.sql.keystate.operator

import java.time.Instant

import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType

import keystate.backend.{GroupedKey, KeyedStateBackend, StateFamily}
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.WindowNamespace
import org.apache.spark.sql.keystate.spec.{OperatorSpec, Protocol, SystemColumnFamilies}
import org.apache.spark.sql.keystate.state.TimerKeys

/** The windows that are open in a store. While there are some, neither their clock nor their merging
  * nor the kind of their contents may change: nothing of the new windows would find them.
  */
private[keystate] final class OpenWindows(
    families: Iterable[StateFamily],
    backend: KeyedStateBackend,
    groups: Range,
    key: StructType
) {
  import OpenWindows._

  /** Throws if an operator has other windows than those that are open. */
  def check(spec: OperatorSpec): Unit = for {
    timers <- families.find(_.name == SystemColumnFamilies.WindowTimersName)
    before <- timers.properties.get(SystemColumnFamilies.WindowsProperty)
    if !spec.windows.contains(before)
  } {
    // Global windows need no timers.
    val contents = families.filter { family =>
      Protocol.WindowContents.contains(family.name) && !spec.states.exists(_.name == family.name)
    }
    val open = (windows(timers)(timer).iterator ++ contents.flatMap(windows(_)(ofKey))).distinct
      .take(Shown)
      .toSeq
    if (open.nonEmpty) throw KeystateErrors.openWindows(before, spec.windows, open)
  }

  private def windows(family: StateFamily)(show: Array[Byte] => String): Seq[String] =
    groups.iterator
      .flatMap { group =>
        val entries = backend.scan(family.id, group, null, null)
        try entries.take(Shown).map(entry => show(entry.key)).toVector
        finally entries.close()
      }
      .take(Shown)
      .toSeq

  private def timer(entry: Array[Byte]) = {
    val namespace = TimerKeys.Namespaced.namespaceOf(entry)
    val (start, end) = (WindowNamespace.startOf(namespace), WindowNamespace.endOf(namespace))
    val window =
      if (end == Long.MaxValue) "a global window"
      else s"the window from ${Instant.ofEpochMilli(start)} to ${Instant.ofEpochMilli(end)}"
    s"$window of key ${shown(TimerKeys.Namespaced.keyOf(entry))}"
  }

  private def ofKey(entry: Array[Byte]) = s"a window of key ${shown(GroupedKey.keyOf(entry))}"

  private def shown(bytes: Array[Byte]) = {
    val row = new UnsafeRow(key.length)
    row.pointTo(bytes, bytes.length)
    String.valueOf(CatalystTypeConverters.convertToScala(row, key))
  }
}

private object OpenWindows {

  private final val Shown = 3
}

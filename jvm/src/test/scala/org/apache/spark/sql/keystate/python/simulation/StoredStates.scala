package org.apache.spark.sql.keystate.python.simulation

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.unsafe.types.UTF8String

import keystate.backend.{Entry, GroupedKey}
import org.apache.spark.sql.keystate.encoding.{OrderedKeyCodec, StateRows}
import org.apache.spark.sql.keystate.spec.{OperatorSpec, SystemColumnFamilies}
import org.apache.spark.sql.keystate.state.{ListChunks, TimerKeys}
import org.apache.spark.sql.keystate.store.KeyGroupStateStore

/** Reads what a version of the store has, entry by entry, with nothing of the conversation's code. */
private[simulation] final class StoredStates(spec: OperatorSpec, groups: Int) {
  private val specs = spec.states.map(state => state.name -> state).toMap
  private val lists = new ListChunks(specs("list"))

  def of(store: KeyGroupStateStore): Map[String, KeyModel] = {
    val found = mutable.HashMap.empty[String, KeyModel].withDefaultValue(KeyModel())
    def read(family: String)(change: Entry => (Array[Byte], KeyModel => KeyModel)): Unit =
      store.family(family).foreach { family =>
        (0 to groups).foreach { group =>
          val entries = store.lease.backend.scan(family.id, group, null, null)
          try
            entries.foreach { entry =>
              val (key, next) = change(entry)
              val name = keyOf(key)
              found(name) = next(found(name))
            }
          finally entries.close()
        }
      }
    store.lease.use {
      read("value")(entry => (entry.key, _.copy(value = Some(long(entry.value)))))
      read("list") { entry =>
        val elements = lists.decode(entry.value).toLongArray()
        (GroupedKey.keyOf(entry.key), model => model.copy(list = model.list ++ elements))
      }
      read("map") { entry =>
        val key = userKey("map", entry).asInstanceOf[UTF8String].toString
        (
          GroupedKey.keyOf(entry.key),
          model => model.copy(map = model.map + (key -> long(entry.value)))
        )
      }
      read("sorted") { entry =>
        val key = userKey("sorted", entry).asInstanceOf[Long]
        (
          GroupedKey.keyOf(entry.key),
          model => model.copy(sorted = model.sorted + (key -> long(entry.value)))
        )
      }
      read(SystemColumnFamilies.TimersName) { entry =>
        val timer = KeyModel.Timer(entry.key(0).toInt, TimerKeys.timeOf(entry.key))
        (TimerKeys.Plain.keyOf(entry.key), model => model.copy(timers = model.timers + timer))
      }
    }
    found.toMap
  }

  private def keyOf(bytes: Array[Byte]): String = {
    val row = new UnsafeRow(1)
    row.pointTo(bytes, bytes.length)
    row.getUTF8String(0).toString
  }

  private def long(value: Array[Byte]): Long = {
    val row = new UnsafeRow(1)
    StateRows.point(row, value)
    row.getLong(0)
  }

  private def userKey(state: String, entry: Entry): Any = {
    val row = new GenericInternalRow(1)
    OrderedKeyCodec(specs(state).keyType.get, specs(state).order)
      .decode(entry.key, GroupedKey.userKeyOffset(entry.key), row, 0)
    row.get(0, specs(state).keyType.get)
  }
}

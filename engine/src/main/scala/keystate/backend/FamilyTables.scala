package keystate.backend

import scala.collection.mutable

/** A backend's object (a "table") for each of its families, by the family's id. It also records
  * which families the open transaction made and dropped, for a rollback.
  *
  * @param make
  *   makes the table of a new family
  * @param check
  *   called before the error for a missing family; throws a better error if the backend is closed
  */
private[keystate] final class FamilyTables[T <: AnyRef](
    make: StateFamily => T,
    check: () => Unit = () => ()
) {
  private val tables = mutable.TreeMap.empty[Int, T]
  // The same tables by id, because the sorted map is too slow for each access.
  private var byId = new Array[AnyRef](0)
  private val made = mutable.Set.empty[Int]
  private val dropped = mutable.ArrayBuffer.empty[(Int, T)]

  def apply(id: Int): T = {
    val table = if (id < byId.length) byId(id) else null
    if (table == null) missing(id)
    table.asInstanceOf[T]
  }

  // A method of its own, so that `apply`, which every access calls, stays small and is inlined.
  private def missing(id: Int): Nothing = {
    check()
    throw new IllegalStateException(s"no state is registered with id $id")
  }

  /** All tables, in the order of their ids. */
  def all: Iterator[T] = tables.valuesIterator

  def register(family: StateFamily): Unit = if (!tables.contains(family.id)) {
    add(family.id, make(family))
    made += family.id
  }

  def drop(id: Int): Unit = tables.remove(id).foreach { table =>
    byId(id) = null
    if (!made.remove(id)) dropped += id -> table
  }

  /** The tables of dropped families that were there when the transaction began. */
  def droppedTables: Seq[T] = dropped.map(_._2).toSeq

  def commit(): Unit = {
    made.clear()
    dropped.clear()
  }

  def rollback(): Unit = {
    made.foreach { id =>
      tables.remove(id)
      byId(id) = null
    }
    dropped.foreach { case (id, table) => add(id, table) }
    commit()
  }

  def clear(): Unit = {
    tables.clear()
    byId = new Array[AnyRef](0)
    commit()
  }

  private def add(id: Int, table: T): Unit = {
    tables(id) = table
    if (id >= byId.length) byId = byId.padTo(id + 1, null)
    byId(id) = table
  }
}

package keystate.backend

/** A factory that decides again and again which of two kinds of backend its store has. Whoever owns
  * the store asks whether a move is due when one is safe: between two transactions. A move is a
  * load: the backend is closed, and the version that it had goes into what `create` makes next.
  */
trait AdaptiveBackendFactory { self: StateBackendFactory =>

  /** Takes note of how many entries the store is about to load into what the next `create` makes.
    */
  def expect(entries: Long): Unit

  /** Takes note of what the store's backend holds, after a load and after each commit.
    *
    * @param entries
    *   how many entries the version has
    */
  def report(backend: KeyedStateBackend, entries: Long): Unit

  /** Begins a move, if one is due: the next `create` makes a backend of the other kind. Returns why.
    */
  def beginMove(): Option[String]

  /** Takes note that the store's backend was closed or given up. */
  def unloaded(): Unit
}

/** Thrown while entries are loaded, when these are to go into a backend of the other kind, which the
  * next `create` makes. Of what was asked nothing is done.
  */
final class MoveNeeded(reason: String) extends RuntimeException(reason, null, false, false)

/** A backend whose place another one can take while it is in use. That is for entries that are
  * loaded on demand: how much memory they take is known only once they are there, which may be amid
  * a transaction. What throws [[MoveNeeded]] has done nothing, so it is asked again of the next
  * backend.
  *
  * @param replace
  *   closes the backend that it is given and makes the next one, with the same entries and the same
  *   open transaction
  */
private[keystate] final class ReplaceableBackend(
    first: KeyedStateBackend,
    replace: (KeyedStateBackend, MoveNeeded) => KeyedStateBackend
) extends KeyedStateBackend {
  private var backend = first

  /** The one that has the entries now. */
  def current: KeyedStateBackend = backend

  // Each method has a catch of its own: one for all would take a closure for every entry.
  private def next(cause: MoveNeeded): KeyedStateBackend = {
    backend = replace(backend, cause)
    backend
  }

  override def get(family: Int, group: Int, key: Array[Byte]): Array[Byte] =
    try backend.get(family, group, key)
    catch { case e: MoveNeeded => next(e).get(family, group, key) }

  override def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit =
    try backend.multiGet(family, groups, keys, values, count)
    catch { case e: MoveNeeded => next(e).multiGet(family, groups, keys, values, count) }

  override def put(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit =
    try backend.put(family, group, key, value)
    catch { case e: MoveNeeded => next(e).put(family, group, key, value) }

  override def remove(family: Int, group: Int, key: Array[Byte]): Unit =
    try backend.remove(family, group, key)
    catch { case e: MoveNeeded => next(e).remove(family, group, key) }

  override def scan(family: Int, group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator =
    try backend.scan(family, group, start, end)
    catch { case e: MoveNeeded => next(e).scan(family, group, start, end) }

  override def scanReverse(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator =
    try backend.scanReverse(family, group, start, end)
    catch { case e: MoveNeeded => next(e).scanReverse(family, group, start, end) }

  override def loader(expected: (Int, Int) => Long): ChangeSink = backend.loader(expected)

  override def register(family: StateFamily): Unit = backend.register(family)

  override def drop(familyId: Int): Unit = backend.drop(familyId)

  override def count(family: Int): Long = backend.count(family)

  override def count(family: Int, group: Int): Long = backend.count(family, group)

  override def memoryUsed: Long = backend.memoryUsed

  override def writeChanges(sink: ChangeSink): Unit = backend.writeChanges(sink)

  override def changeCount: Long = backend.changeCount

  override def changesCommitted(): Unit = backend.changesCommitted()

  override def rollback(): Unit = backend.rollback()

  override def close(): Unit = backend.close()
}

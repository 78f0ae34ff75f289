package keystate.backend

/** A factory that can change which of two kinds of backend its store has. The owner of the store
  * asks whether a move is due when a move is safe: between two transactions. A move is a load: the
  * backend is closed, and its version is loaded into the next backend that `create` makes.
  */
trait AdaptiveBackendFactory { self: StateBackendFactory =>

  /** Announces the load of a version into the next backend that `create` makes.
    *
    * @param entries
    *   the number of entries in the version
    * @param entryBytes
    *   the heap bytes of one entry, from the version's manifest
    */
  def expect(entries: Long, entryBytes: Long): Unit

  /** The heap bytes of one entry, measured on the entries that the backend holds in memory. None if
    * it does not hold most of them.
    *
    * @param entries
    *   the number of entries in the store
    */
  def entryBytes(backend: KeyedStateBackend, entries: Long): Option[Long]

  /** Reports the content of the store's backend, after a load and after each commit.
    *
    * @param entries
    *   the number of entries in the version
    */
  def report(backend: KeyedStateBackend, entries: Long): Unit

  /** Begins a move, if one is due: the next `create` makes a backend of the other kind. Returns the
    * reason.
    */
  def beginMove(): Option[String]

  /** Takes note that the store's backend was closed or given up. */
  def unloaded(): Unit
}

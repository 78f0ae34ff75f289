package keystate.backend

/** A factory that decides again and again which of two kinds of backend its store has. Whoever owns
  * the store asks whether a move is due when one is safe: between two transactions. A move is a
  * load: the backend is closed, and the version that it had goes into what `create` makes next.
  */
trait AdaptiveBackendFactory { self: StateBackendFactory =>

  /** Takes note of what the store is about to load into what the next `create` makes.
    *
    * @param entries
    *   how many entries the version has
    * @param entryBytes
    *   how many bytes one takes on the heap, as its manifest says
    */
  def expect(entries: Long, entryBytes: Long): Unit

  /** How many bytes an entry takes on the heap, by what the backend holds there. None if it does
    * not hold most of them.
    *
    * @param entries
    *   how many entries the store has
    */
  def entryBytes(backend: KeyedStateBackend, entries: Long): Option[Long]

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

package keystate.backend

/** A factory that decides again and again which of two kinds of backend its store has. Whoever owns
  * the store asks whether a move is due when one is safe: between two transactions. A move is a
  * load: the backend is closed, and the version that it had goes into what `create` makes next.
  */
trait MovesStores { self: StateBackendFactory =>

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

package keystate.localrecovery

import keystate.backend.GroupEntries
import keystate.version.Manifest

/** Where a closed store leaves its entries, and where a new store finds them. Entries are
  * identified by family id and key group.
  */
trait LocalRecovery {

  /** Entries of this version that are in memory. They belong to the caller alone from now on. */
  def recover(manifest: Manifest): Map[(Int, Int), GroupEntries]

  /** Lets earlier stores drop their entries, because none of them can be used here. */
  def supersede(): Unit

  /** Takes the entries of this version, which nobody uses any more. */
  def retain(manifest: Manifest, entries: Map[(Int, Int), GroupEntries]): Unit
}

object LocalRecovery {

  /** Retains nothing, and so finds nothing. */
  object None extends LocalRecovery {
    override def recover(manifest: Manifest): Map[(Int, Int), GroupEntries] = Map.empty
    override def supersede(): Unit = ()
    override def retain(manifest: Manifest, entries: Map[(Int, Int), GroupEntries]): Unit = ()
  }
}

package keystate.localrecovery

import keystate.backend.GroupEntries
import keystate.version.Manifest

/** Where a store leaves its entries when it is closed, and finds what others left. Entries are told
  * apart by family id and key group.
  */
trait LocalRecovery {

  /** Entries of this version that are in memory. They belong to the caller alone from now on. */
  def recover(manifest: Manifest): Map[(Int, Int), GroupEntries]

  /** Lets the stores before this one give up what they have, for nothing of it is of use here. */
  def supersede(): Unit

  /** Takes entries of this version, which nobody uses any more. */
  def retain(manifest: Manifest, entries: Map[(Int, Int), GroupEntries]): Unit
}

object LocalRecovery {

  /** Nothing is left, and so nothing is found. */
  object None extends LocalRecovery {
    override def recover(manifest: Manifest): Map[(Int, Int), GroupEntries] = Map.empty
    override def supersede(): Unit = ()
    override def retain(manifest: Manifest, entries: Map[(Int, Int), GroupEntries]): Unit = ()
  }
}

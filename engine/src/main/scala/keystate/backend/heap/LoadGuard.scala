package keystate.backend.heap

/** Is told now and then, while entries are loaded, what is on the heap by then. It may throw, to have
  * no more: [[keystate.backend.MoveNeeded]].
  */
private[backend] trait LoadGuard {
  def loading(memoryUsed: Long, entries: Long): Unit
}

private[backend] object LoadGuard {

  /** After how many entries it is told: adding up all tables should cost little beside them. */
  final val Interval = 4096

  val None: LoadGuard = (_, _) => ()
}

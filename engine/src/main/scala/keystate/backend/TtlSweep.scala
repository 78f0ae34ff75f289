package keystate.backend

import keystate.keygroup.KeyGroupRange

/** Sweeps one state's entries in rounds, some at a time, to remove expired entries of keys that
  * never come again. Its position is in memory only: a new sweep starts with the first group.
  *
  * Within a group the position is a number of entries, because a hash table has no order in which a
  * key could mark it. So the sweep skips the entries that it has checked before: `limit` bounds the
  * checked entries, and the size of a group bounds the skipped ones. When entries before the
  * position are removed, the sweep skips as many unchecked entries; they wait for the next round.
  */
final class TtlSweep {
  private var group = 0
  private var kept = 0L // how many entries of the group were looked at and stay

  /** Checks up to `limit` entries, each at most once; [[TtlEntries]] removes expired entries as
    * they are passed.
    */
  def run(entries: TtlEntries, family: Int, groups: KeyGroupRange, limit: Long): Unit = {
    if (!groups.contains(group)) next(groups)
    var left = limit
    var groupsLeft = groups.last - groups.first + 1
    while (left > 0 && groupsLeft > 0) {
      val all = entries.scan(family, group, null, null)
      try {
        var passed = 0L
        while (passed < kept && all.hasNext) {
          all.next()
          passed += 1
        }
        while (left > 0 && all.hasNext) {
          all.next()
          kept += 1
          left -= 1
        }
        if (!all.hasNext) {
          next(groups)
          groupsLeft -= 1
        }
      } finally all.close()
    }
  }

  private def next(groups: KeyGroupRange): Unit = {
    group = if (group >= groups.first && group < groups.last) group + 1 else groups.first
    kept = 0
  }
}

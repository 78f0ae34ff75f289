package keystate.backend

import keystate.keygroup.KeyGroupRange

/** Goes round one state's entries, some at a time, so that expired entries are removed also where
  * their key never comes again. Where it stands is kept in memory only: a new one begins with the
  * first group.
  *
  * Within a group it finds its place by the number of entries, since a hash table has no order in
  * which a key would tell it. So it passes what it has looked at before: `limit` bounds what is
  * looked at, and a group's entries bound what is passed. When entries before its place go, it
  * passes over as many that it has not seen; these wait for the next round.
  */
final class TtlSweep {
  private var group = 0
  private var kept = 0L // how many entries of the group were looked at and stay

  /** Looks at up to `limit` entries, at each once at most; [[TtlEntries]] removes what has expired
    * as it is passed.
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

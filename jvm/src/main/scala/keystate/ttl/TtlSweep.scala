package keystate.ttl

import keystate.keygroup.KeyGroupRange

/** Goes round one state's entries, some at a time, so that those which expired and whose keys never
  * come again are removed too. Where it stands is lost with it: the next one begins anew.
  */
final class TtlSweep {
  private var group = 0
  private var kept = 0L // entries of the group that were looked at and stay

  /** Looks at `limit` entries, at most at each once; [[TtlEntries]] removes what has expired. */
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

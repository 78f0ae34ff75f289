package keystate.windows

import scala.collection.mutable.ArrayBuffer

import keystate.{KeyOrder, KeyedStateStore, SortedMapState, SortedMapStateDescriptor}

/** The windows of a key, and for each of them the window under which its contents are: windows that
  * are merged leave what they hold where it is.
  */
private[windows] final class MergingWindowSet(
    store: KeyedStateStore,
    assigner: MergingWindowAssigner[Any, Window]
) {
  import MergingWindowSet.OnMerge

  private val windows: SortedMapState[WindowKey, WindowKey] =
    store.getSortedMapState(
      SortedMapStateDescriptor[WindowKey, WindowKey]("merging-window-set", KeyOrder.NATURAL)
    )

  /** The window that has its contents; null if there is no such window. */
  def stateWindow(window: WindowKey): WindowKey = windows.get(window)

  /** The window that ends first; null if there is none. */
  def first: WindowKey = {
    val entry = windows.firstEntry()
    if (entry == null) null else entry.getKey
  }

  /** Removes a window. */
  def retire(window: WindowKey): Unit = windows.remove(window)

  /** Adds a window; returns the one that it is merged into, or itself. */
  def add(added: WindowKey)(onMerge: OnMerge): WindowKey =
    if (windows.contains(added)) added
    else {
      val merges = ArrayBuffer.empty[(WindowKey, Seq[WindowKey])]
      val all = (windows.keys().toVector :+ added).map(_.window)
      assigner.mergeWindows(all, (merged, into) => merges += into.key -> merged.map(_.key).toVector)
      var result: WindowKey = null
      merges.foreach { case (into, group) =>
        val merged = group.filter(_ != added)
        if (merged.size < group.size) result = into
        val holders = merged.map(windows.get)
        merged.foreach(windows.remove)
        windows.put(into, holders.head)
        if (merged != Seq(into)) onMerge(into, merged, holders.head, holders.tail)
      }
      if (result == null) {
        windows.put(added, added)
        result = added
      }
      result
    }
}

private[windows] object MergingWindowSet {

  /** Is told of windows that were merged: the new window, the merged ones, the window that has what
    * the new one holds, and those that have what is to be moved there.
    */
  type OnMerge = (WindowKey, Seq[WindowKey], WindowKey, Seq[WindowKey]) => Unit
}

package keystate.windows

import java.lang.{Long => JLong}

import scala.collection.mutable.ArrayBuffer

import keystate.{
  KeyOrder, KeyedStateStore, SortedMapState, SortedMapStateDescriptor, TypeInformation
}

/** What the windows of a key hold that are merged, which also tells what windows there are. A window
  * is there from its first element until it is removed, with or without contents.
  */
private[keystate] trait MergingContents { self: Contents =>

  /** The windows of the key, sorted. */
  def windows: Seq[WindowKey]

  /** The window that ends first. */
  def first: Option[WindowKey]

  /** Makes one window of some, of which it can be one. */
  def merge(into: WindowKey, merged: Seq[WindowKey]): Unit
}

/** An accumulator for each window. An emptied window has null. */
private[keystate] final class FoldedSessions(own: Fold)
    extends FoldedContents(own)
    with MergingContents {
  override protected def name: String = Contents.sessions

  override def contains(window: WindowKey): Boolean = accumulators.contains(window)

  override def windows: Seq[WindowKey] = accumulators.keys().toVector

  override def first: Option[WindowKey] = accumulators.keys().headOption

  override def clear(window: WindowKey): Unit = accumulators.put(window, null)

  override def remove(window: WindowKey): Unit = accumulators.remove(window)

  override def merge(into: WindowKey, merged: Seq[WindowKey]): Unit = {
    var accumulator: Any = null
    merged.foreach { window =>
      val mine = accumulators.get(window)
      accumulators.remove(window)
      if (accumulator == null) accumulator = mine
      else if (mine != null) accumulator = fold.merge(accumulator, mine)
    }
    accumulators.put(into, accumulator)
  }
}

/** The elements of each window. They stay where they are: a window knows the one under which they
  * are.
  */
private[keystate] final class ListedSessions(elementType: TypeInformation[_])
    extends ListedContents(elementType)
    with MergingContents {
  @transient private var holders: SortedMapState[WindowKey, WindowKey] = _

  override def open(store: KeyedStateStore): Unit = {
    super.open(store)
    holders = store.getSortedMapState(
      SortedMapStateDescriptor[WindowKey, WindowKey]("merging-window-set", KeyOrder.NATURAL)
    )
  }

  override protected def holderOf(window: WindowKey): WindowKey = holders.get(window)

  override def contains(window: WindowKey): Boolean = holders.contains(window)

  override def windows: Seq[WindowKey] = holders.keys().toVector

  override def first: Option[WindowKey] = holders.keys().headOption

  override def add(window: WindowKey, element: Any, time: JLong): Boolean = {
    val known = holders.get(window)
    if (known == null) holders.put(window, window)
    super.add(if (known == null) window else known, element, time): Unit
    known == null
  }

  override def remove(window: WindowKey): Unit = if (contains(window)) {
    clear(window)
    holders.remove(window)
  }

  override def merge(into: WindowKey, merged: Seq[WindowKey]): Unit = {
    val holder = holders.get(merged.head)
    merged.tail.foreach(moveElements(_, holder))
    merged.foreach(holders.remove)
    holders.put(into, holder)
  }
}

/** The windows of a key, which an assigner merges. */
private[windows] final class MergingWindowSet(
    assigner: MergingWindowAssigner[Any, Window],
    contents: Contents with MergingContents
) {
  import MergingWindowSet.OnMerge

  /** The window that ends first. */
  def first: Option[WindowKey] = contents.first

  /** Merges a new window with those that there are; returns the one that it is merged into, or
    * itself. That is there when it has an element.
    */
  def add(added: WindowKey)(onMerge: OnMerge): WindowKey =
    if (contents.contains(added)) added
    else {
      val merges = ArrayBuffer.empty[(WindowKey, Seq[WindowKey])]
      val all = (contents.windows :+ added).map(_.window)
      assigner.mergeWindows(all, (merged, into) => merges += into.key -> merged.map(_.key).toVector)
      var result = added
      merges.foreach { case (into, group) =>
        val merged = group.filter(_ != added)
        if (merged.size < group.size) result = into
        if (merged != Seq(into)) {
          contents.merge(into, merged)
          onMerge(into, merged)
        }
      }
      result
    }
}

private[windows] object MergingWindowSet {

  /** Is told of windows that were merged: the new window, and what it was made of. */
  type OnMerge = (WindowKey, Seq[WindowKey]) => Unit
}

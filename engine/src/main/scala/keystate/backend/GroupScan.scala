package keystate.backend

import java.util.Arrays

import scala.collection.mutable

/** Scans entries of several key groups as one sequence. Closing the scan closes the open scans of
  * the groups.
  */
object GroupScan {

  /** Group after group. A group is opened when the one before is at its end. */
  def concat(groups: Range, open: Int => EntryIterator): EntryIterator = new EntryIterator {
    private val rest = groups.iterator
    private var current: EntryIterator = empty

    override def hasNext: Boolean = {
      while (!current.hasNext && rest.hasNext) current = open(rest.next())
      current.hasNext
    }
    override def next(): Entry = {
      if (!hasNext) Iterator.empty.next()
      current.next()
    }
    override def close(): Unit = current.close()
  }

  /** Scans in the bytewise order of the keys, whatever their group. Reading the first entry opens
    * all groups.
    */
  def merge(groups: Range, open: Int => EntryIterator): EntryIterator = new EntryIterator {
    private final class Source(entries: EntryIterator) {
      var head: Entry = _
      def advance(): Boolean = {
        val more = entries.hasNext
        if (more) head = entries.next() else entries.close()
        more
      }
      def close(): Unit = entries.close()
    }

    private var opened: mutable.PriorityQueue[Source] = _

    private def sources: mutable.PriorityQueue[Source] = {
      if (opened == null) {
        val queue = mutable.PriorityQueue.empty[Source]((a: Source, b: Source) =>
          Arrays.compareUnsigned(b.head.key, a.head.key)
        )
        try
          groups.foreach { group =>
            val source = new Source(open(group))
            if (source.advance()) queue += source
          }
        catch {
          case e: Throwable =>
            queue.foreach(_.close())
            throw e
        }
        opened = queue
      }
      opened
    }

    override def hasNext: Boolean = sources.nonEmpty
    override def next(): Entry = {
      val source = sources.dequeue()
      val entry = source.head
      if (source.advance()) sources += source
      entry
    }
    override def close(): Unit = if (opened != null) {
      opened.foreach(_.close())
      opened.clear()
    }
  }

  /** No entries. */
  val empty: EntryIterator = new EntryIterator {
    override def hasNext: Boolean = false
    override def next(): Entry = Iterator.empty.next()
    override def close(): Unit = ()
  }
}

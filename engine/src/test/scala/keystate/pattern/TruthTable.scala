package keystate.pattern

/** Rows, as far as a pattern sees them: their times, and which conditions each of them meets. */
final case class TruthTable(times: IndexedSeq[Long], holds: IndexedSeq[Set[Int]]) {
  type History = List[(Int, Long)]

  def size: Int = times.size

  def row(i: Long, more: (Int, History, Int) => Boolean = (_, _, _) => true): RowAtHand[History] =
    new RowAtHand[History] {
      override def number: Long = i
      override def time: Long = times(i.toInt)
      override def holds(condition: Int, history: History, letter: Int): Boolean =
        TruthTable.this.holds(i.toInt)(condition) && more(condition, history, letter)
      override def taken(history: History, letter: Int): History = (letter, i) :: history
    }
}

package keystate.pattern

import scala.util.Random

/** Draws patterns and rows. */
final class RandomPatterns(chance: Random) {
  private val conditions = 4
  private var names = 0

  private def one[T](of: T*): T = of(chance.nextInt(of.size))
  private def often(percent: Int) = chance.nextInt(100) < percent
  private def condition() = chance.nextInt(conditions)
  private def name() = {
    names += 1
    s"p$names"
  }

  def table(): TruthTable = {
    val size = chance.nextInt(8)
    val times = Iterator.iterate(10L)(_ + chance.nextInt(3)).take(size).toIndexedSeq
    TruthTable(times, IndexedSeq.fill(size)((0 until conditions).filter(_ => often(40)).toSet))
  }

  private def times(): Times =
    if (often(45)) Times(1, Some(1), optional = often(20))
    else {
      val least = 1 + chance.nextInt(2)
      Times(
        least,
        if (often(50)) None else Some(least + chance.nextInt(2)),
        often(25),
        one(Skips.None, Skips.ToNext, Skips.Any)
      )
    }

  private def rows(): Part.Rows = {
    val times = this.times()
    Part.Rows(
      name(),
      Option.when(often(85))(condition()),
      one(Skips.all: _*),
      times,
      greedy = times != Times.One && times.skips != Skips.Any && often(25),
      until = Option.when(times.most.isEmpty && often(20))(condition()),
      within = Option.when(often(10))(1L + chance.nextInt(4))
    )
  }

  private def group(): Part.Group = {
    val times = this.times()
    Part.Group(
      Seq.fill(1 + chance.nextInt(2))(rows()),
      one(Skips.all: _*),
      times,
      until = Option.when(times.most.isEmpty && often(20))(condition())
    )
  }

  def pattern(): Pattern = {
    names = 0
    val parts = Seq.newBuilder[Part]
    var last: Part = null
    for (i <- 0 until 1 + chance.nextInt(3)) {
      val part = if (often(20)) group() else rows()
      parts += part
      last = part
      part match {
        case rows: Part.Rows if !rows.times.optional && often(25) =>
          val atOnce = often(40)
          val own = Option.when(!atOnce && often(20))(1L + chance.nextInt(4))
          parts += Part.Absent(name(), condition(), atOnce, own)
        case _ =>
      }
    }
    Pattern(parts.result(), Option.when(often(40))(2L + chance.nextInt(8)))
  }

  def rowPattern(depth: Int = 3): RowPattern = {
    import RowPattern._
    def several = Seq.fill(2 + chance.nextInt(2))(rowPattern(depth - 1))
    if (depth == 0 || often(30)) Letter(one("A", "B", "C", "D"))
    else if (often(45)) InOrder(if (often(5)) Nil else several)
    else if (often(35)) OneOf(several)
    else {
      val least = chance.nextInt(3)
      val most = Option.when(often(50))(least + chance.nextInt(3))
      Repeated(rowPattern(depth - 1), least, most, often(60))
    }
  }
}

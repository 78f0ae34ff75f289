package keystate.keygroup

/** Key group arithmetic: which subtask owns which keys.
  *
  * Every key belongs for life to one of K key groups (K = max parallelism), and a subtask owns a
  * contiguous range of groups, so a change of parallelism moves whole groups. The range formula is
  * Flink's (`KeyGroupRangeAssignment`); the hash is Spark's `hash()`, murmur3 with seed 42, so that
  * plain SQL can compute a key's group.
  */
object KeyGroups {
  val DefaultMaxParallelism = 128

  /** Groups are stored in two bytes; Flink's bound. */
  val MaxMaxParallelism = 32768

  /** The max parallelism of a store that was given none, by Flink's rule
    * (`KeyGroupRangeAssignment.computeDefaultMaxParallelism`): half as much again as the
    * parallelism, rounded up to a power of two, and at least 128.
    */
  def defaultMaxParallelism(parallelism: Int): Int = {
    val wanted = parallelism.toLong + parallelism / 2
    val power = if (wanted <= 1) 1L else java.lang.Long.highestOneBit(wanted - 1) << 1
    math.max(DefaultMaxParallelism.toLong, math.min(power, MaxMaxParallelism.toLong)).toInt
  }

  /** The group of a key with this murmur3 hash: `pmod(hash, K)`. */
  def groupOf(hash: Int, maxParallelism: Int): Int = Math.floorMod(hash, maxParallelism)

  /** The subtask that owns a group when `parallelism` subtasks share `maxParallelism` groups. */
  def subtaskOf(group: Int, parallelism: Int, maxParallelism: Int): Int =
    (group.toLong * parallelism / maxParallelism).toInt

  /** The groups a subtask owns; empty never happens while parallelism <= maxParallelism. */
  def rangeOf(subtask: Int, parallelism: Int, maxParallelism: Int): KeyGroupRange = {
    require(
      0 < parallelism && parallelism <= maxParallelism,
      s"parallelism must be between 1 and the max parallelism $maxParallelism, got $parallelism"
    )
    require(0 <= subtask && subtask < parallelism, s"no subtask $subtask of $parallelism")
    val first = ((subtask.toLong * maxParallelism + parallelism - 1) / parallelism).toInt
    val last = (((subtask + 1).toLong * maxParallelism - 1) / parallelism).toInt
    KeyGroupRange(first, last)
  }

  /** The integer that Spark's hash partitioning sends to `partition`, whatever the partition count
    * above it: Spark places a row by `pmod(murmur3(x, 42), n)` and murmur3 of one int is a
    * bijection, so its inverse at `partition` lands exactly there.
    */
  def label(partition: Int): Int = Murmur3.inverseHashInt(partition, Murmur3.Seed)

  /** Where a subtask keeps what belongs to it rather than to a key: one past the key groups. Every
    * subtask has this group to itself.
    */
  def operatorGroup(maxParallelism: Int): Int = maxParallelism

  def checkMaxParallelism(maxParallelism: Int): Unit = require(
    0 < maxParallelism && maxParallelism <= MaxMaxParallelism,
    s"max parallelism must be between 1 and $MaxMaxParallelism, got $maxParallelism"
  )
}

/** A contiguous, inclusive range of key groups. */
final case class KeyGroupRange(first: Int, last: Int) {
  def contains(group: Int): Boolean = first <= group && group <= last
  def size: Int = last - first + 1
  def intersects(other: KeyGroupRange): Boolean = first <= other.last && other.first <= last

  /** What both have; call it only on ranges that intersect. */
  def intersection(other: KeyGroupRange): KeyGroupRange =
    KeyGroupRange(math.max(first, other.first), math.min(last, other.last))
}

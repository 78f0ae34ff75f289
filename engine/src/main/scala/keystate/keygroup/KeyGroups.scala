package keystate.keygroup

/** Key group arithmetic: which subtask owns which keys. Part of the file format.
  *
  * Every key belongs for life to one of K key groups (K = max parallelism), numbered from 0. A
  * subtask owns a contiguous range of groups, so a change of parallelism moves whole groups. The
  * formula of the ranges is Flink's (`KeyGroupRangeAssignment`). The hash is Spark's `hash()`,
  * murmur3 with seed 42, so that plain SQL can compute a key's group.
  */
object KeyGroups {

  /** The number of key groups where nothing asks for another one or needs more. */
  val DefaultMaxParallelism = 128

  /** The most key groups there can be: groups are stored in two bytes. Flink has the same bound. */
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

  /** The groups a subtask owns: at least one. Throws IllegalArgumentException when the parallelism
    * is above the max parallelism, or there is no such subtask.
    */
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

  /** An integer that Spark's hash partitioning sends to `partition`, for every number n of
    * partitions above it: Spark sends an integer x to `pmod(murmur3(x, 42), n)`, and murmur3 of one
    * integer is a bijection. So the x whose hash is `partition` goes there.
    */
  def label(partition: Int): Int = Murmur3.inverseHashInt(partition, Murmur3.Seed)

  /** The operator group: where a subtask keeps what belongs to it rather than to a key. Its number
    * is one past the key groups'. Every subtask has one of its own.
    */
  def operatorGroup(maxParallelism: Int): Int = maxParallelism

  /** Throws IllegalArgumentException for a number of key groups that can't be. */
  def checkMaxParallelism(maxParallelism: Int): Unit = require(
    0 < maxParallelism && maxParallelism <= MaxMaxParallelism,
    s"max parallelism must be between 1 and $MaxMaxParallelism, got $maxParallelism"
  )
}

/** A contiguous range of key groups, from `first` to `last` inclusive. */
final case class KeyGroupRange(first: Int, last: Int) {
  def contains(group: Int): Boolean = first <= group && group <= last
  def size: Int = last - first + 1
  def intersects(other: KeyGroupRange): Boolean = first <= other.last && other.first <= last

  /** The groups in both. Call it only on ranges that intersect: there is no empty range. */
  def intersection(other: KeyGroupRange): KeyGroupRange =
    KeyGroupRange(math.max(first, other.first), math.min(last, other.last))
}

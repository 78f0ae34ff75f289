package keystate.faults

import java.lang.management.ManagementFactory
import java.util.concurrent.{Executors, TimeUnit}

import scala.util.Random

import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.sun.management.ThreadMXBean

/** Damage by seed, over and over: for seconds, or with SLOW=1 for as long as `KEYSTATE_FUZZ_SECONDS`
  * says (10 minutes, for all targets together). A case that fails tells its seed, which
  * `KEYSTATE_FUZZ_SEED` begins with.
  */
object Fuzzing {
  private final val Targets = 11
  private final val HangSeconds = 60L
  private val json = new ObjectMapper

  private val seconds: Double = {
    val all = sys.env.get("KEYSTATE_FUZZ_SECONDS").map(_.toDouble)
    all.getOrElse(if (sys.env.contains("SLOW")) 600.0 else 8.0) / Targets
  }

  /** Runs cases until the time is over.
    *
    * @param allocation
    *   how many bytes a case may allocate
    */
  def run(target: String, allocation: Long)(body: Random => Any): Unit = {
    val threads = ManagementFactory.getThreadMXBean.asInstanceOf[ThreadMXBean]
    val watchdog = Executors.newSingleThreadScheduledExecutor()
    val thread = Thread.currentThread
    val end = System.nanoTime + (seconds * 1e9).toLong
    var seed = sys.env.get("KEYSTATE_FUZZ_SEED").fold(0L)(_.toLong)
    var count = 0
    try
      while (count < 20 || System.nanoTime < end) {
        val running = seed
        val hang = watchdog.schedule(
          (() => {
            System.err.println(s"$target hangs with seed $running:")
            thread.getStackTrace.foreach(frame => System.err.println(s"  at $frame"))
            Runtime.getRuntime.halt(3)
          }): Runnable,
          HangSeconds,
          TimeUnit.SECONDS
        )
        val before = threads.getCurrentThreadAllocatedBytes
        try { val _ = body(new Random(seed)) }
        catch {
          case e: Throwable => throw new AssertionError(s"$target, seed $seed: $e", e)
        } finally { val _ = hang.cancel(false) }
        val allocated = threads.getCurrentThreadAllocatedBytes - before
        assert(allocated < allocation, s"$target, seed $seed: allocates $allocated bytes")
        seed += 1
        count += 1
      }
    finally watchdog.shutdown()
    println(s"$target: $count cases")
  }

  /** Flipped, cut, repeated, overwritten. */
  def damage(random: Random, bytes: Array[Byte]): Array[Byte] = {
    val damaged = bytes.clone
    def at() = random.nextInt(damaged.length)
    if (damaged.isEmpty) Array[Byte](1)
    else
      random.nextInt(7) match {
        case 0 =>
          val flipped = at()
          damaged(flipped) = (damaged(flipped) ^ 1 << random.nextInt(8)).toByte
          damaged
        case 1 =>
          (0 to random.nextInt(8)).foreach(_ => damaged(at()) = random.nextInt().toByte)
          damaged
        case 2 => damaged.take(at())
        case 3 => damaged ++ damaged.slice(at(), damaged.length).take(100)
        case 4 =>
          val from = at()
          java.util.Arrays.fill(damaged, from, Math.min(damaged.length, from + 64), 0.toByte)
          damaged
        case 5 =>
          // A length, as most numbers of four bytes are.
          val length = number(random).toInt
          val from = at()
          val ints = java.nio.ByteBuffer.allocate(4).putInt(length).array
          ints.indices.foreach(i => if (from + i < damaged.length) damaged(from + i) = ints(i))
          damaged
        case _ =>
          val (from, until) = { val (a, b) = (at(), at()); (Math.min(a, b), Math.max(a, b)) }
          damaged.take(from) ++ damaged.drop(until)
      }
  }

  /** JSON with a few of its values replaced, removed or repeated. */
  def damageJson(random: Random, bytes: Array[Byte]): Array[Byte] = {
    val root = json.readTree(bytes)
    (0 to random.nextInt(3)).foreach(_ => change(random, root))
    json.writeValueAsBytes(root)
  }

  private def change(random: Random, node: JsonNode): Unit = node match {
    case fields: ObjectNode if fields.size > 0 =>
      val names = fields.fieldNames
      val name = Iterator.continually(names.next()).drop(random.nextInt(fields.size)).next()
      if (descend(random, fields.get(name))) change(random, fields.get(name))
      else {
        val _ =
          if (random.nextInt(5) == 0) fields.remove(name)
          else fields.set[JsonNode](name, value(random))
      }
    case elements: ArrayNode if elements.size > 0 =>
      val at = random.nextInt(elements.size)
      if (descend(random, elements.get(at))) change(random, elements.get(at))
      else {
        val _ = random.nextInt(4) match {
          case 0 => elements.remove(at)
          case 1 => elements.add(elements.get(at).deepCopy[JsonNode]())
          case _ => elements.set(at, value(random))
        }
      }
    case _ =>
  }

  private def descend(random: Random, node: JsonNode): Boolean =
    node.isContainerNode && node.size > 0 && random.nextInt(6) > 0

  private def value(random: Random): JsonNode = random.nextInt(10) match {
    case 0 => json.getNodeFactory.nullNode
    case 1 => json.getNodeFactory.textNode(texts(random.nextInt(texts.size)))
    case 2 => json.createArrayNode.add(random.nextInt(200)).add(random.nextInt(200))
    case 3 => json.createObjectNode
    case 4 => json.getNodeFactory.booleanNode(true)
    case 5 => json.getNodeFactory.numberNode(1.5)
    case _ => json.getNodeFactory.numberNode(number(random))
  }

  private val texts =
    Seq("", "7", "../../victim", "/etc/victim", "file:///victim", "0/1-a.sst", "\u0000")

  private def number(random: Random): Long = random.nextInt(8) match {
    case 0 => -1
    case 1 => Int.MaxValue
    case 2 => Int.MinValue
    case 3 => Long.MaxValue
    case 4 => 0
    case 5 => 1L << random.nextInt(63)
    case _ => random.nextInt(300)
  }
}

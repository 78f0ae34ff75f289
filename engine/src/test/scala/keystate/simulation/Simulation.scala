package keystate.simulation

import scala.util.Random

import keystate.checkpoint.StoreSettings
import keystate.version.PinnedVersions

/** One run, all of which the seed decides: drivers that come and go, on a storage with faults; then
  * the faults end.
  *
  * @param only
  *   the events of the seed that happen
  */
final class Simulation(
    seed: Long,
    mutation: Option[Mutation] = None,
    only: Option[Set[Int]] = None
) {
  private val kinds = Seq(
    StorageKind.Local(isSynced = true),
    StorageKind.Local(isSynced = false),
    StorageKind.Hdfs,
    StorageKind.Objects
  )
  val world = new World(
    new Choices(seed, only),
    kinds(Math.floorMod(seed, kinds.size.toLong).toInt),
    mutation,
    recovers = Set(2, 5)(Math.floorMod(seed, 7L).toInt),
    heaps = new Random(seed + 2),
    usesSource = Math.floorMod(seed, 3L) == 0
  )
  import world.{random, scheduler, storage, story}

  private val checks = new Checks(world)
  private var withIds = false
  private val usesDisk = random.nextInt(16) == 0
  private val usesAuto = Math.floorMod(seed, 11L) == 3

  // How likely it is that a request is its process's last, and that the power fails.
  private val deaths = Seq(0.0, 0.002, 0.01)(random.nextInt(3))
  private val powerLosses =
    if (world.kind == StorageKind.Local(isSynced = true)) Seq(0.0, 0.002)(random.nextInt(2))
    else 0.0
  private val operator = new Process("operator")
  private val references = new Random(seed + 1)
  private val edits = new Random(seed + 3)
  private val isEdited = Set(0, 6)(Math.floorMod(seed, 9L).toInt)

  /** Runs it. Throws a Violation where something does not hold. */
  def run(): Unit = {
    storage.onWritten = checks.written
    storage.onDelete = checks.deleted
    world.acknowledged = checks.acknowledge
    world.mustBeReadable = checks.isRetained
    def rate(): Double = Seq(0.0, 0.0, 0.005, 0.03)(random.nextInt(4))
    storage.rates = FaultRates(rate(), rate(), rate(), rate())
    scheduler.beforeStep = mayDie
    story.tell0(
      s"seed $seed: ${world.kind.name}, ${storage.rates}, deaths $deaths, power $powerLosses"
    )
    scheduler.spawn(operator, "operator")(operate())
    try scheduler.run()
    finally world.close()
    story.reach(s"runs on ${world.kind.name}")
  }

  private def mayDie(process: Process): Unit = if (!world.isPeaceful && (process ne operator))
    if (random.happens(deaths)) {
      val dying =
        if (random.nextBoolean() && process.name != "network") process
        else {
          val alive = world.processes.filterNot(_.isDead)
          if (alive.isEmpty) process else alive(random.nextInt(alive.size))
        }
      if (dying.name != "network") {
        story.tell(scheduler, s"$dying dies", s"${dying.name.takeWhile(_.isLetter)} dies")
        dying.isDead = true
      }
    } else if (random.happens(powerLosses)) {
      story.tell(scheduler, "the power fails", "the power fails")
      world.processes.foreach(_.isDead = true)
      storage.losePower()
      checks.powerLost()
    }

  private def operate(): Unit = {
    val drivers = 1 + random.nextInt(4)
    (1 to drivers).foreach { n =>
      val driver = newDriver(s"driver$n", random.nextBoolean())
      driver.start(1 + random.nextInt(5))
      if (random.nextInt(4) == 0) new Savepoint(world).start()
      if (isEdited && edits.nextInt(2) == 0) new Editor(world, edits).start()
      if (references.nextInt(4) == 0) new Referrer(world, checks, references).start()
      // The next one may come while this one is still there.
      scheduler.await(isOver(driver), world.longestTick * (10 + random.nextInt(1000)).toLong)
      if (!isOver(driver)) story.reach("a second driver starts")
    }
    world.isPeaceful = true
    storage.rates = FaultRates.None
    story.tell(scheduler, "the faults end")
    checks.retainedReadBack()
    // The others may still run; the last one to come goes on.
    inPeace("driver-late", 2, rescales = true)
    scheduler.await(scheduler.count(_ ne operator) == 0)
    checks.retainedReadBack()
    val settings = newSettings(enough = true)
    val kept = settings.store.minVersionsToRetain + 3 + settings.store.minVersionsToDelete.toInt
    var rounds = 0
    scheduler.sleep(PinnedVersions.LeaseMillis + 1)
    if (references.nextBoolean()) checks.letGoOfAll()
    storage.paths.filter(checks.isForgotten).foreach(storage.view.delete)
    val looksForRest = random.nextInt(3) == 0
    if (looksForRest) story.reach("files are looked for that nobody needs")
    // What is there after each round; a store that is behind may keep another file for a while.
    var left = Set.empty[String]
    if (looksForRest) do {
      rounds += 1
      // There are enough batches here to leave behind what is referred to too late.
      if (rounds == 1 && references.nextBoolean())
        new Referrer(world, checks, references).start()
      inPeace(s"driver-last$rounds.", kept + 5, rescales = false, settings)
      scheduler.await(scheduler.count(_ ne operator) == 0)
      val found = checks.left(kept).toSet
      left = if (rounds == 1) found else left & found
    } while (rounds < 3 && left.nonEmpty)
    checks.retainedReadBack()
    if (left.nonEmpty) throw new Violation(s"nobody needs ${left.mkString(", ")}")
  }

  private def isOver(driver: Driver) = driver.ended.isDefined || driver.process.isDead

  /** Once faults have ended, a driver that starts runs its batches. One of the others may have got a
    * log entry first, so it may have to start again, but not often.
    */
  private def inPeace(
      name: String,
      batches: Int,
      rescales: Boolean,
      settings: QuerySettings = newSettings()
  ): Unit = {
    var starts = 0
    var done = false
    while (!done) {
      starts += 1
      if (starts > 3) throw new Violation(s"$name does not go on, though all is in peace")
      val driver = newDriver(s"$name$starts", rescales, settings)
      driver.start(batches, maintainsAll = true)
      scheduler.await(isOver(driver))
      done = driver.ended.exists(_.isRight)
    }
  }

  private def newDriver(
      name: String,
      rescales: Boolean,
      settings: QuerySettings = newSettings()
  ): Driver = {
    checks.retained = Math.min(checks.retained, settings.store.minVersionsToRetain)
    val wanted = Option.when(rescales)(1 + random.nextInt(4))
    story.tell(scheduler, s"$name starts, with $wanted partitions and $settings")
    new Driver(world, settings, wanted, name)
  }

  private def newSettings(enough: Boolean = false): QuerySettings = {
    val before = withIds
    withIds ||= random.nextInt(3) == 0
    if (withIds && !before && storage.paths.nonEmpty) story.reach("the format changes")
    def one[T](values: T*): T = values(random.nextInt(values.size))
    QuerySettings(
      withIds = withIds,
      store = StoreSettings(
        minVersionsToRetain = 1 + random.nextInt(3),
        minVersionsToDelete = 1 + random.nextInt(2).toLong,
        inlineBytes = one(0L, 200L, 1000L, 64L * 1024),
        sectionBytes = one(100, 1000, 100000),
        onDemandBytes = one(0L, Long.MaxValue),
        pieceEntries = one(1L, 10L)
      ),
      executors = 1 + random.nextInt(2),
      speculation = if (enough) 0 else one(0.0, 0.1, 0.5),
      taskFails = if (enough || world.isPeaceful) 0 else one(0.0, 0.1),
      maintenanceMillis = world.longestTick * one(10, 200),
      backend =
        if (usesDisk && random.nextBoolean()) BackendKind.RocksDB
        else if (usesAuto) BackendKind.Auto
        else BackendKind.Heap
    )
  }
}

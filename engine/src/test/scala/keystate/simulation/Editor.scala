package keystate.simulation

import scala.util.{Random, Using}

import keystate.backend.{BytewiseOrder, Change}
import keystate.checkpoint.{PartitionState, Repartitioning, StoreReader}
import keystate.files.StoreLocation
import keystate.keygroup.KeyGroups
import keystate.version.{Manifest, Partitioning}

/** A process that makes a changed copy of the last committed version while drivers run, as an edit
  * does: it reads all entries, and writes what it makes of them to another storage, for another
  * number of partitions. If nothing fails, that is what it was to be.
  */
final class Editor(world: World, edits: Random) extends VersionCopy(world, "editor") {
  import Editor.edited
  import world.{maxParallelism, scheduler, storage, story}

  private val target =
    new SimulatedStorage(world.kind, scheduler, world.random, story, mutation = None)
  target.rates = storage.rates

  private val operatorGroup = KeyGroups.operatorGroup(maxParallelism)

  override protected def copy(batch: Long): Unit = {
    val version = batch + 1
    val expected = for {
      (place, value) <- world.model.content(version)
      changed <- edited(place._3, value)
    } yield place -> changed
    val before = world.has(Mutation.EditsOlder) && batch > 0
    val (partitions, ids) = committed(if (before) batch - 1 else batch)
    val read = ids.zipWithIndex.map { case (id, partition) =>
      readPartition(if (before) batch else version, id, partition, partitions)
    }
    val first = read.head._1
    val entries = read.flatMap(_._2)
    val count = 1 + edits.nextInt(maxParallelism)
    def isOf(group: Int, partition: Int) =
      group == operatorGroup || KeyGroups.subtaskOf(group, count, maxParallelism) == partition
    story.tell(scheduler, s"edits version $version")
    val newIds = (0 until count).map { partition =>
      val own = entries.filter(entry => isOf(entry.group, partition))
      val partitioning = Partitioning(maxParallelism, Some(count), partition)
      val id = first.id.map(_ => world.newId())
      write(first.copy(id = id, partitioning = partitioning, baseId = None), version, own)
      id
    }
    val found = world.contents(target.snapshot, version, newIds)
    found.zipWithIndex.foreach { case (content, partition) =>
      val own = expected.filter { case ((_, group, _), _) => isOf(group, partition) }
      if (content != own)
        throw new Violation(s"version $version was edited to $content, not $own")
    }
    story.reach("an edit is written")
  }

  /** A partition's version file, and what becomes of its entries. What all partitions have is taken
    * from the first one.
    */
  private def readPartition(
      version: Long,
      id: Option[String],
      partition: Int,
      partitions: Int
  ): (Manifest, Seq[Change]) = world.withLocalFolder { local =>
    val reader = new StoreReader(at(partition), storage.view, local)
    val manifest = reader.manifest(version, id, partitions)
    val entries = for {
      family <- manifest.families.filter(family => Model.Families.contains(family.name))
      of <- reader.entries(manifest, family) +: Option
        .when(partition == 0)(reader.subtaskEntries(manifest, family))
        .toSeq
      entry <- Using.resource(of)(_.toVector)
      value <- edited(world.keyOf(family.name, entry.key), new String(entry.value, "UTF-8"))
    } yield entry.copy(value = value.getBytes("UTF-8"))
    (manifest, entries)
  }

  private def write(empty: Manifest, version: Long, entries: Seq[Change]): Unit =
    world.withLocalFolder { local =>
      val store = StoreLocation.DefaultStore
      val writer = new Repartitioning(target.view, 0, store, version, local, asSst = false)
      val sorted = entries.sortBy(Repartitioning.runKey)(
        Ordering.comparatorToOrdering(BytewiseOrder.comparator)
      )
      val state = writer.writeRun(empty.partitioning.partition, sorted.iterator)
      writer.writeVersion(empty.copy(mergedAt = None), state.getOrElse(PartitionState.Empty))
    }
}

private object Editor {

  /** What an entry with this key and value becomes; None if it is left out. */
  def edited(key: String, value: String): Option[String] =
    Option.when(key != "0")(s"$value, edited")
}

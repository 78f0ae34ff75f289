package keystate.checkpoint

import java.util.Arrays

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.Change
import keystate.files.StoreLocation
import keystate.keygroup.KeyGroups

/** Where each key says in which partition it is. */
class RepartitioningSuite extends AnyFunSuite with StoreFixture {
  protected def takesSst: Boolean = false

  private def at(partition: Int) = StoreLocation(0, partition, StoreLocation.DefaultStore)

  private def partitionOf(key: Array[Byte], partitions: Int): Int =
    new String(key.takeRight(2), "UTF-8").toInt % partitions

  for {
    format <- Seq("v1", "v2")
    (before, after) <- Seq(2 -> 3, 4 -> 2)
    isRewritten = before % after != 0
    how = if (isRewritten) "is dealt out anew" else "comes together as it is"
  } test(s"$format, $before to $after: the state $how, and its entries need not be counted") {
    val storage = new MemoryStorage
    val all = for {
      family <- Seq("p", "g")
      number <- 10 until 60
    } yield (family, number % 7, s"$number") -> large(number.toLong, 3000)
    val ids = (0 until before).map { partition =>
      val id = if (format == "v2") newId() else None
      val store = newStore(storage, StoreSettings(hashPartitions = Some(before)), at(partition))
      try {
        store.load(0, None)
        register(store)
        all.foreach { case ((family, group, key), value) =>
          if (partitionOf(bytes(key), before) == partition)
            change(store, family, group, key, value)
        }
        store.commit(id)
      } finally store.close()
      id
    }

    val local = newLocalFolder()
    val target = new Repartitioning(storage, 0, StoreLocation.DefaultStore, 1, local, takesSst)
    val newIds =
      try {
        val old = ids.zipWithIndex.map { case (id, p) => target.manifest(p, id, before) }
        val regrouped = target.regrouped(old, after)
        assert(regrouped.isEmpty == isRewritten)
        val states = regrouped.getOrElse {
          val entries: Seq[Change] = old.flatMap(target.entries(_).map(_._2).toVector)
          (0 until after).map { partition =>
            val own = entries
              .filter(entry => partitionOf(entry.key, after) == partition)
              .sortWith((a, b) =>
                Arrays.compareUnsigned(Repartitioning.runKey(a), Repartitioning.runKey(b)) < 0
              )
            target.writeRun(partition, own.iterator).getOrElse(PartitionState.Empty)
          }
        }
        target.writeVersions(old, states, ids.head.map(_ => () => newId().get))
      } finally local.close()

    val contents = newIds.zipWithIndex.map { case (id, partition) =>
      val store = newStore(storage, StoreSettings(hashPartitions = Some(after)), at(partition))
      try {
        store.load(1, id)
        register(store)
        val files = StoreReader.files(store.manifest)
        assert(files.nonEmpty && files.forall(_.endsWith(".sst")) == takesSst)
        val own = content(store)
        assert(own.keys.forall { case (_, _, key) =>
          partitionOf(bytes(key), after) == partition
        })
        val counted = for {
          family <- store.families
          group <- 0 to KeyGroups.operatorGroup(store.maxParallelism)
          count = store.backend.count(family.id, group) if count > 0
        } yield (family.name, group) -> count
        assert(counted.toMap == own.keySet.groupMapReduce(key => (key._1, key._2))(_ => 1L)(_ + _))
        own
      } finally store.close()
    }
    assert(contents.flatten.toMap == all.toMap)

    // With format v1 the version is there in both layouts; each is looked at as the layout that it is.
    ids.zipWithIndex.foreach { case (id, partition) =>
      val old = newStore(storage, StoreSettings(hashPartitions = Some(before)), at(partition))
      try
        assert(
          old.readManifest(1, id).partitioning.hashPartitions.contains(before) && old.exists(1, id)
        )
      finally old.close()
    }
    assert(leftBehind.isEmpty)
  }
}

package org.apache.spark.sql.keystate.store

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.internal.SQLConf

import keystate.faults.{ObjectFileSystem, Requests}
import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

/** How many requests a partition makes to the checkpoint's file system. */
class RequestsSuite extends AnyFunSuite with ProviderFixture {
  private val retained = 10

  private def provider(
      folder: String,
      rename: Boolean = false,
      format: Int = 1
  ): KeyGroupStateStoreProvider =
    newProvider(
      folder,
      conf = Map(
        SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key -> format.toString,
        SQLConf.MIN_BATCHES_TO_RETAIN.key -> retained.toString
      ),
      // As a query tells it.
      hadoop = ObjectFileSystem.settings(rename) +
        (SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL.key -> "1")
    )

  private def objects() = newFolder().replace("file:", s"${ObjectFileSystem.Scheme}:")

  private val random = new Random(1)

  /** Commits a version with so many bytes of changes; returns its id. */
  private def commit(
      provider: KeyGroupStateStoreProvider,
      version: Long,
      id: Option[String],
      bytes: Int
  ): Option[String] = {
    val store = provider.getStore(version, id)
    store.put(key(random.alphanumeric.take(bytes).mkString, version), value(1))
    store.commit()
    store.getStateStoreCheckpointInfo().stateStoreCkptId
  }

  /** The requests of each of some micro-batches, after a first one. */
  private def microBatches(rename: Boolean, format: Int, bytes: Int): Seq[Map[String, Int]] =
    withProvider(provider(objects(), rename, format)) { provider =>
      var id = commit(provider, 0, None, bytes)
      (1 to 12).map { version =>
        Requests.clear()
        id = commit(provider, version.toLong, id, bytes)
        Requests.counts()
      }
    }

  for (format <- Seq(1, 2)) {
    test(
      s"v$format: a micro-batch costs a partition one PUT when its changes fit inline, else two"
    ) {
      val few = microBatches(rename = false, format, bytes = 100)
      assert(few.forall(_ == Map("PUT" -> 1)), few)
      val many = microBatches(rename = false, format, bytes = 100000)
      assert(many.forall(_ == Map("PUT" -> 2)), many)
      // Runs that were inline go to a file now and then, in the place of many of them.
      val some = microBatches(rename = false, format, bytes = 30000)
      assert(some.forall(requests => requests.keySet == Set("PUT") && requests("PUT") <= 2), some)
    }

    test(s"v$format: where files are renamed, nothing else either") {
      val few = microBatches(rename = true, format, bytes = 100)
      assert(few.forall(_ == Map("PUT" -> 1, "RENAME" -> 1)), few)
    }

    test(s"v$format: a load reads the version file and each run once") {
      val folder = objects()
      val id = withProvider(provider(folder, format = format)) { provider =>
        (0 until 4).foldLeft(Option.empty[String]) { (id, version) =>
          commit(provider, version.toLong, id, if (version == 2) 100 else 100000)
        }
      }
      withProvider(provider(folder, format = format)) { provider =>
        val made = Requests.of(provider.getStore(4, id).abort())
        assert(made.map(_.verb).toSet == Set("GET"))
        val (versions, runs) = made.partition(_.path.endsWith(".keystate"))
        assert(runs.map(_.path).distinct.size == 3 && runs.size == 3)
        // With v1 a file that a rescale to this number of partitions wrote would count.
        assert(versions.size == (if (format == 1) 2 else 1))
      }
    }

    test(s"v$format: maintenance lists the folder once, and only when there is enough to delete") {
      withProvider(provider(objects(), format = format)) { provider =>
        var id = Option.empty[String]
        val rounds = (0 until 60).map { version =>
          id = commit(provider, version.toLong, id, bytes = 100)
          Requests.clear()
          provider.doMaintenance()
          Requests.counts()
        }
        // And once the operator's folder, to look for partitions that it does not have.
        val lists = rounds.map(_.getOrElse("LIST", 0)).filter(_ > 0)
        assert(lists.sorted.dropRight(1).forall(_ == 1) && lists.max <= 2, lists)
        assert(rounds.count(_.contains("LIST")) <= 21, rounds)
        val deleting = rounds.filter(_.contains("DELETE"))
        assert(deleting.size > 5 && deleting.forall(_("DELETE") <= 2), deleting)
        assert(!rounds.exists(_.contains("HEAD")), rounds)
        val reads = deleting.takeRight(3).map(_.getOrElse("GET", 0))
        // With v2 a version file that was read is known from then on.
        if (format == 2) assert(reads.forall(_ <= 5), reads)
        else assert(reads.forall(_ <= retained + 3), reads)
      }
    }
  }

  test("the requests are metrics of the commit") {
    val folder = objects()
    withProvider(provider(folder))(provider =>
      (0L to 3L).foreach(commit(provider, _, None, 100000))
    )
    withProvider(provider(folder)) { provider =>
      val store = provider.getStore(4, None)
      store.put(key("a", 1), value(1))
      store.commit()
      val metrics = store.metrics.customMetrics.map { case (metric, n) => metric.name -> n }
      assert(metrics("keystatePuts") == 1 && metrics("keystateLists") == 0)
      assert(metrics("keystateGets") == 6)
    }
  }
}

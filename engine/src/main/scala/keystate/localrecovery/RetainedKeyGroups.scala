package keystate.localrecovery

import java.lang.ref.SoftReference
import java.util.Arrays

import scala.collection.mutable

import keystate.backend.{GroupEntries, StateFamily}
import keystate.version.{FileSource, InlineSource, Manifest, Run}

/** Entries in memory that closed stores have left, by key group, until a store recovers or drops
  * them. When memory is short they are dropped sooner.
  *
  * Why they equal the result of a load: a group's entries follow from the group's runs, and a run
  * never changes. So they are used for a version that lists the same runs for the group, in the
  * same order, and for no other. The version's number and partitioning do not matter, nor whether
  * the closed store had committed more than the query did.
  *
  * Any thread may use it.
  */
final class RetainedKeyGroups {
  import RetainedKeyGroups._

  private var retained = Map.empty[String, Vector[Retained]]

  /** Keeps entries. Returns a function that drops those that are still here.
    *
    * @param place
    *   the folder of the state: paths of run files are relative to it
    * @param manifest
    *   the version of the entries
    */
  def retain(
      place: String,
      manifest: Manifest,
      entries: Map[(Int, Int), GroupEntries]
  ): () => Unit = {
    val added = new Retained(manifest, new SoftReference(mutable.Map.from(entries)))
    synchronized {
      retained = retained.updated(place, retained.getOrElse(place, Vector.empty) :+ added)
    }
    () => remove(place, _ eq added)
  }

  /** The entries that this version has too; they are kept no longer. */
  def recover(place: String, manifest: Manifest): Map[(Int, Int), GroupEntries] = {
    val found = synchronized {
      retained.getOrElse(place, Vector.empty).flatMap(_.take(manifest)).toMap
    }
    remove(place, _.isEmpty)
    found
  }

  def isEmpty: Boolean = synchronized(retained.isEmpty)

  private def remove(place: String, gone: Retained => Boolean): Unit = synchronized {
    retained = retained.updatedWith(place)(_.map(_.filterNot(gone)).filter(_.nonEmpty))
  }
}

private object RetainedKeyGroups {

  private final class Retained(
      manifest: Manifest,
      kept: SoftReference[mutable.Map[(Int, Int), GroupEntries]]
  ) {
    def isEmpty: Boolean = Option(kept.get).forall(_.isEmpty)

    /** Removes and returns the entries that another version can use. The rest of its groups is
      * dropped.
      */
    def take(other: Manifest): Map[(Int, Int), GroupEntries] =
      Option(kept.get).filter(_ => mayHave(other)).fold(Map.empty[(Int, Int), GroupEntries]) {
        entries =>
          val common = manifest.partitioning.groups.intersection(other.partitioning.groups)
          val families = manifest.families
            .filter(family => other.families.exists(isSame(family, _)))
            .map(_.id)
          val taken = for {
            group <- common.first to common.last
            isWanted = haveSameRuns(other, group)
            family <- families
            found <- entries.remove((family, group)) if isWanted
          } yield (family, group) -> found
          taken.toMap
      }

    /** With hash partitioning, each partition has keys of all groups. */
    private def mayHave(other: Manifest): Boolean = {
      val (own, its) = (manifest.partitioning, other.partitioning)
      own.groups.intersects(its.groups) &&
      (its.parallelism.isDefined || own.partition == its.partition)
    }

    private def haveSameRuns(other: Manifest, group: Int): Boolean = {
      val (own, others) = (runsOf(manifest, group), runsOf(other, group))
      own.size == others.size && own.zip(others).forall { case (a, b) => isSame(a, b) }
    }
  }

  private def runsOf(manifest: Manifest, group: Int): Seq[Run] =
    manifest.runs.filter(_.groups.contains(group))

  // Only the groups that the versions take from the runs may differ.
  private def isSame(a: Run, b: Run): Boolean = a.bytes == b.bytes && a.crc32c == b.crc32c &&
    ((a.source, b.source) match {
      case (FileSource(path), FileSource(other)) => path == other
      case (inline: InlineSource, other: InlineSource) =>
        Arrays.equals(inline.content, other.content)
      case _ => false
    })

  private def isSame(a: StateFamily, b: StateFamily): Boolean =
    a.id == b.id && a.name == b.name && a.layout == b.layout
}

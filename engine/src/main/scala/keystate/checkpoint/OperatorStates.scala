package keystate.checkpoint

import keystate.backend.Change
import keystate.files.{CheckpointStorage, LocalFolder, StoreLocation}
import keystate.keygroup.KeyGroupRange
import keystate.version.{EntryCounts, InlineRun, Manifest}

/** Reads subtasks' operator state from committed versions, and replaces it in manifests, without
  * loading the versions.
  */
private[checkpoint] final class OperatorStates(storage: CheckpointStorage, local: LocalFolder) {

  /** The operator state of a version; None when it has none. */
  def read(location: StoreLocation, manifest: Manifest): Option[OperatorState] =
    family(manifest).flatMap { family =>
      val group = manifest.partitioning.operatorGroup
      val files = new RunFiles(location, storage, local)
      // Every batch writes it anew, so it is found in one of the newest runs.
      manifest.runs.reverseIterator
        .filter(_.groups.contains(group))
        .flatMap { run =>
          val own = KeyGroupRange(group, group)
          val entries = files.read(run, isWhole = false, Set(family), own, manifest.version)
          try entries.filter(_.key.sameElements(OperatorState.StateKey)).toVector
          finally entries.close()
        }
        .nextOption()
        .map(change => OperatorState.fromJson(change.value))
    }

  /** The manifest with another operator state, as an inline run that is the newest. One
    * without operator state stays as it is.
    */
  def replace(manifest: Manifest, state: OperatorState): Manifest =
    family(manifest).fold(manifest) { family =>
      val group = manifest.partitioning.operatorGroup
      val entries = Seq(
        Change(family, group, OperatorState.StateKey, OperatorState.toJson(state)),
        Change(family, group, OperatorState.TagKey, Array.emptyByteArray)
      )
      val run =
        InlineRun.encode(_.addAll(entries), Int.MaxValue.toLong, manifest.version, manifest.id)
      val counts =
        manifest.partitioning.ownGroups.map(g => if (g == group) entries.size.toLong else 0L)
      manifest.copy(
        entryCounts = manifest.entryCounts.updated(family, EntryCounts.of(counts)),
        runs = manifest.runs ++ run
      )
    }

  private def family(manifest: Manifest): Option[Int] =
    manifest.families.find(_.name == OperatorState.FamilyName).map(_.id)
}

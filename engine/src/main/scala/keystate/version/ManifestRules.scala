package keystate.version

import keystate.backend.RunFormat
import keystate.files.{Crc32c, StoreLocation}
import keystate.keygroup.{KeyGroupRange, KeyGroups}

/** The rules for a manifest that Keystate wrote. Whoever can write into a checkpoint can make a
  * version file with right checksums; its content must not make Keystate read, copy or delete
  * anything outside the checkpoint.
  */
private[keystate] object ManifestRules {
  private val PlainName = "[0-9A-Za-z_-]{1,100}"
  private val Id = PlainName.r
  private val RunName = s"\\d{1,19}-$PlainName\\.(?:sst|lz4)".r

  /** Whether this is valid as the part after the version in a version file's name. */
  def isId(text: String): Boolean = Id.matches(text)

  /** Whether this is a path of the store's run files: `<partition>/[store/]<name>`, or a
    * [[SharedPath]] to such a place.
    */
  def isRunPath(path: String, store: String): Boolean =
    if (SharedPath.isShared(path)) SharedPath.parse(path).exists(of => isOwnPath(of.path, store))
    else isOwnPath(path, store)

  private def isOwnPath(path: String, store: String): Boolean = {
    val slash = path.indexOf('/')
    val partition = if (slash < 0) None else path.take(slash).toIntOption
    partition.exists { number =>
      val folder = StoreLocation(0, number, store).folder
      number >= 0 && path.startsWith(s"$folder/") && RunName.matches(path.drop(folder.length + 1))
    }
  }

  /** The first error in the content of a version file; None if it is valid.
    *
    * @param name
    *   the part after the version in the file's name
    */
  def problem(
      manifest: Manifest,
      location: StoreLocation,
      version: Long,
      name: Option[String]
  ): Option[String] = {
    val saysName = VersionFile.nameOf(manifest)
    first(
      (manifest.version != version) -> s"it says that it is version ${manifest.version}",
      (saysName != name) ->
        s"it says that its name is ${VersionFile.fileName(manifest.version, saysName)}",
      (manifest.partitioning.partition != location.partition) ->
        s"it says that it is of partition ${manifest.partitioning.partition}",
      (version < 0) -> s"its version is $version"
    ).orElse(layoutProblem(manifest))
      .orElse(groupsProblem(manifest))
      .orElse(familyProblem(manifest))
      .orElse(manifest.runs.iterator.flatMap(runProblem(manifest, _, location)).nextOption())
  }

  private def layoutProblem(manifest: Manifest): Option[String] = {
    import manifest.version
    import manifest.partitioning._
    first(
      (maxParallelism < 1 || maxParallelism > KeyGroups.MaxMaxParallelism) ->
        s"its max parallelism is $maxParallelism",
      parallelism.exists(n => n < 1 || n > maxParallelism || partition < 0 || partition >= n) ->
        s"with max parallelism $maxParallelism there is no partition $partition of ${parallelism.mkString}",
      hashPartitions.exists(_ < 1) -> s"it is one of ${hashPartitions.mkString} partitions",
      rescaledAt.exists(at => at < 0 || at > version) ->
        s"it was rescaled at version ${rescaledAt.mkString}"
    )
  }

  private def groupsProblem(manifest: Manifest): Option[String] = {
    import manifest.partitioning._
    val owned = Partitioning.groupsOf(maxParallelism, parallelism, partition)
    first(
      (groups != owned) -> s"it holds key groups ${show(groups)} instead of ${show(owned)}",
      manifest.entryBytes.exists(n =>
        n < 0 || n > Int.MaxValue
      ) -> s"an entry takes ${manifest.entryBytes.mkString} bytes"
    )
  }

  private def familyProblem(manifest: Manifest): Option[String] = {
    import manifest._
    val ids = families.map(_.id)
    first(
      (nextFamilyId < 0 || nextFamilyId > RunFormat.MaxFamilyId + 1) ->
        s"the next state's number is $nextFamilyId",
      (ids.distinct.size != ids.size) -> "two states have one number",
      ids.exists(id => id < 0 || id >= nextFamilyId) ->
        s"a state has a number outside 0 to ${nextFamilyId - 1}",
      entryCounts.valuesIterator.exists { counts =>
        counts.byGroup.size != partitioning.groups.size + 1 || counts.byGroup.min < 0
      } -> "its numbers of entries are not those of its key groups"
    )
  }

  private def runProblem(manifest: Manifest, run: Run, location: StoreLocation): Option[String] =
    first(
      (run.entries < 0 || run.bytes < 0) ->
        s"a run has ${run.entries} entries and ${run.bytes} bytes",
      (run.groups.first < 0 || run.groups.first > run.groups.last ||
        run.groups.last > manifest.partitioning.operatorGroup) ->
        s"a run has key groups ${show(run.groups)}",
      (run.version < 0 || run.version > manifest.version) ->
        s"a run is of version ${run.version}"
    ).orElse(run.source match {
      case FileSource(path) =>
        Option.when(!isRunPath(path, location.store))(
          s"it lists a run file '$path', which is not where one of this store can be"
        )
      case inline: InlineSource =>
        if (Crc32c.of(inline.content) != run.crc32c) Some("the checksum of an inline run is wrong")
        else PlainRun.problem(inline.content, run.entries).map(found => s"in an inline run, $found")
    })

  private def first(checks: (Boolean, String)*): Option[String] =
    checks.collectFirst { case (true, problem) => problem }

  private def show(groups: KeyGroupRange): String = s"${groups.first} to ${groups.last}"
}

package keystate.simulation

/** A fault put into the protocol on purpose, to see that the simulation finds it.
  *
  * @param text
  *   what is wrong
  */
sealed abstract class Mutation(val text: String)

object Mutation {

  // Of the storage.
  case object AppearsInParts extends Mutation("a file appears before all of it is written")
  case object RunsComeLater extends Mutation("a version file is written before its run files")
  case object NotConditional extends Mutation("a log's entry replaces the one that is there")
  case object SkipsRescaled extends Mutation("a rescale leaves out the file of a partition")
  case object NoFileSync extends Mutation("a file is not synced before it counts")
  case object NoFolderSync extends Mutation("a folder is not synced before its files count")
  case object TakesForOld extends Mutation("clean-up takes new run files for old ones")

  // Of executors.
  case object KeepsFewer extends Mutation("clean-up keeps three versions too few")
  case object NotLoadedAgain extends Mutation("a task goes on from whatever is loaded")
  case object SucceedsAnyway extends Mutation("a task whose commit failed is a success")

  case object RecoversAnyVersion
      extends Mutation("a store recovers what is in memory of any version")

  // Of savepoints and edits.
  case object TrustsReferences extends Mutation("a reference is not looked after")
  case object EditsOlder extends Mutation("an edit reads the version before")

  // Of sources.
  case object NamesWithoutId extends Mutation("a source's file is named by its batch alone")

  case object TrustsNewestSegment
      extends Mutation(
        "a source goes on from its newest file, whether the offset log has it or not"
      )

  // Of drivers.
  case object NeverLooks extends Mutation("a driver does not look for another one")
  case object LooksTooFar extends Mutation("a driver looks for the owner after the next one")
  case object TakesOtherInput extends Mutation("a batch that is run again has another input")
  case object SkipsPending extends Mutation("a batch that is pending is not run again")
  case object CommitsTooSoon extends Mutation("a batch is committed before its last task")
  case object KeepsIds extends Mutation("a rescale leaves the ids in the commit log")
  case object TrustsOffsets extends Mutation("the number of partitions is the offset log's")

  val all: Seq[Mutation] = Seq(
    AppearsInParts,
    RunsComeLater,
    NotConditional,
    SkipsRescaled,
    NoFileSync,
    NoFolderSync,
    TakesForOld,
    KeepsFewer,
    NotLoadedAgain,
    SucceedsAnyway,
    RecoversAnyVersion,
    TrustsReferences,
    EditsOlder,
    NamesWithoutId,
    TrustsNewestSegment,
    NeverLooks,
    LooksTooFar,
    TakesOtherInput,
    SkipsPending,
    CommitsTooSoon,
    KeepsIds,
    TrustsOffsets
  )
}

package keystate.errors

/** Errors of reading, comparing, copying or changing a checkpoint. */
private[errors] trait CheckpointErrors {
  import ErrorCode._

  def noCheckpoint(location: String): KeystateException = NoCheckpoint.error(
    s"$location is not the checkpoint of a query: its logs are not there. Give the folder that was " +
      "the query's checkpointLocation."
  )

  def nothingCommitted(location: String): KeystateException =
    NoCheckpoint.error(s"The checkpoint $location has no committed batch yet, and so no state.")

  def noBatch(batch: Long, location: String): KeystateException =
    NoCheckpoint.error(s"The logs of the checkpoint $location don't have batch $batch any more.")

  def sourceFileGone(batch: Long, file: String): KeystateException = MissingFile.error(
    s"The checkpoint can't be copied as it is after batch $batch: the source's file $file, which " +
      "a query would go on from, does not exist. Sources keep what the newest batches need: copy " +
      "the newest version, or restore the file."
  )

  /** @param kept
    *   the versions that there are, ascending
    */
  def versionNotKept(location: String, wanted: String, kept: Seq[Long]): KeystateException = {
    val there = if (kept.isEmpty) "none" else s"versions ${kept.head} to ${kept.last}"
    MissingVersion.error(
      s"The checkpoint $location does not have the state $wanted. There are $there: version N + 1 " +
        "is the state after batch N."
    )
  }

  def fileGone(file: String, checkpoint: String): KeystateException = MissingFile.error(
    s"$file is not there, which belongs to the checkpoint $checkpoint. Restore it from a copy, or go " +
      "on from a savepoint."
  )

  def insideCheckpoint(place: String, checkpoint: String): KeystateException =
    InsideCheckpoint.error(
      s"$place is inside of $checkpoint, which is to be copied. What is made there is deleted with " +
        "the checkpoint: give a folder outside of it."
    )

  def unfinished(checkpoint: String): KeystateException = Unfinished.error(
    s"What was to make $checkpoint (a savepoint, an import, create or edit) was cut off, so not " +
      "all of it is there; or it was deleted. Delete the folder (keystate delete) and make it again. " +
      "If it is being written just now, wait until it is done."
  )

  def damagedLog(file: String, cause: Throwable): KeystateException = CorruptFile.error(
    s"The log file $file is damaged: $cause. Restore it from a copy, or go on from a savepoint.",
    cause
  )

  def damagedState(state: String, cause: Throwable): KeystateException = CorruptFile.error(
    s"What the checkpoint says of state '$state' can't be understood: $cause. The version file is " +
      "damaged, or was not written by Keystate. Go on from an older version or a savepoint.",
    cause
  )

  def damagedElement(i: Int, cause: Throwable): KeystateException = CorruptFile.error(
    s"Element $i of the function's list in the checkpoint can't be read: ${cause.getMessage}. Go " +
      "on from an older checkpoint.",
    cause
  )

  def damagedSourceHeader(batch: Long, cause: Throwable): KeystateException = CorruptFile.error(
    s"The header of the source's file of batch $batch can't be understood: $cause. Restore the " +
      "file, or start with a new checkpoint.",
    cause
  )

  def unknownSchema(state: String, found: Int, newest: Int): KeystateException = UnknownSchema.error(
    s"A value of state '$state' has schema $found, but the version knows schemas up to $newest: " +
      "the checkpoint is damaged. Go on from an older one or a savepoint."
  )

  def noSuchOperator(
      checkpoint: String,
      operator: Option[Long],
      there: Seq[String]
  ): KeystateException = {
    val list = if (there.isEmpty) "none" else there.mkString("; ")
    NoSuchState.error(
      operator.fold(s"Not one keyed operator is in $checkpoint: tell which one by operator=.")(id =>
        s"There is no keyed operator $id in $checkpoint."
      ) + s" There are: $list."
    )
  }

  def noSuchState(
      checkpoint: String,
      state: Option[String],
      operator: Option[Long],
      found: Int,
      there: Seq[String]
  ): KeystateException = {
    val what = state.fold("state")(name => s"state '$name'") +
      operator.fold("")(id => s" of operator $id")
    val list = if (there.isEmpty) "none" else there.mkString("; ")
    NoSuchState.error(
      if (found == 0) s"There is no $what in $checkpoint. There are: $list."
      else
        s"More than one $what is in $checkpoint: tell which one by " +
          s"${if (state.isEmpty) "state=" else "operator="}. There are: $list."
    )
  }

  def noSchema(operator: String): KeystateException = NoSuchState.error(
    s"$operator has no description of a state's key: its query has not committed a batch yet."
  )

  def tableWithoutCheckpoint(catalog: String, table: String): KeystateException =
    NoCheckpoint.error(
      s"$catalog.$table names no checkpoint: a table of this catalog is " +
        s"$catalog.`/path/of/checkpoint`.state, or $catalog.`/path/of/checkpoint`.operator.state."
    )

  def readOnly(what: String): KeystateException = ReadOnly.error(
    s"$what is not possible: the tables of a checkpoint can only be read. keystate.admin.edit makes a " +
      "changed copy of a checkpoint."
  )

  def cannotReplay(reason: String): KeystateException = CannotReplay.error(reason)

  def cannotCompare(operator: Long, groups: Seq[Int]): KeystateException = CannotCompare.error(
    s"The states of operator $operator can't be compared: they are in ${groups.mkString(" and ")} " +
      "key groups."
  )

  def cannotForget(why: String): KeystateException =
    CannotForget.error(s"The key can't be forgotten: $why.")

  def losesRequest(checkpoint: String, request: String, operators: Seq[Long]): KeystateException =
    CannotEdit.error(
      s"The request $request in $checkpoint asks that keys of operator ${operators.mkString(", ")} be " +
        "forgotten, which the copy does not have, or with other key columns. Start the query once: " +
        "a micro-batch takes the request. Then make the copy."
    )

  def cannotShare(checkpoint: String, version: Long): KeystateException = CannotShare.error(
    s"Version $version of the state in $checkpoint can't be shared: a savepoint by reference is of " +
      "one of the two newest versions, and the query went on too quickly, or an older one was asked " +
      "for, or it took so long that its references were given up. Leave out the version, try again, " +
      "or make a savepoint without by_reference (on the command line without --by-reference)."
  )

  def cannotImport(location: String, provider: String): KeystateException = CannotImport.error(
    s"The state in $location was written by '$provider'. Only that of Spark's own RocksDB and " +
      "HDFS-backed state store providers can be imported."
  )

  def importedAlready(location: String): KeystateException =
    CannotImport.error(s"The checkpoint $location is one of Keystate's already.")

  def importExists(target: String): KeystateException = ImportExists.error(
    s"$target exists and is not an empty folder: give the imported checkpoint a folder of its own."
  )

  def moved(checkpoint: String, to: String): KeystateException = new KeystateException(
    ErrorCode.CheckpointMoved,
    s"The query goes on with $to in the place of $checkpoint, which a promotion has changed. Start it " +
      "there (keystate.admin.moved_to tells a program where)."
  )

  /** @param goesOn
    *   where the query does
    */
  def notPromoted(checkpoint: String, goesOn: String): KeystateException =
    ErrorCode.PromotionUnfinished.error(
      s"$checkpoint was made by a promotion that was cut off or undone, so the query goes on with " +
        s"$goesOn. Start it there; a canary's promote(start, to=...) makes this copy anew."
    )

  def notAFork(path: String): KeystateException = new KeystateException(
    ErrorCode.CannotCanary,
    s"$path is there, and no canary has made it, so none deletes it. Give the canary another folder " +
      "(at=)."
  )

  def savepointExists(target: String): KeystateException = SavepointExists.error(
    s"$target exists and is not an empty folder: give a savepoint a folder of its own."
  )

  def targetExists(target: String): KeystateException = TargetExists.error(
    s"$target exists and is not an empty folder: give the new checkpoint a folder of its own."
  )

  def stateRow(state: String, row: String, problem: String): KeystateException =
    StateRow.error(s"State '$state', row $row: $problem.")
}

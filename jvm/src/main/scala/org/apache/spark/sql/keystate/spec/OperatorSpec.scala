package org.apache.spark.sql.keystate.spec

import org.json4s._
import org.json4s.jackson.JsonMethods

import keystate.backend.StateFamily
import keystate.checkpoint.OperatorState
import org.apache.spark.sql.keystate.spec.Protocol.OperatorFields

/** The declaration of one keyed operator.
  *
  * @param timers
  *   whether the function can have timers
  * @param broadcast
  *   the broadcast states; none if nothing is broadcast to the operator
  * @param subtaskState
  *   each subtask's state without keys, if the function takes part in checkpoints; then every
  *   subtask runs in every micro-batch
  * @param sideOutputs
  *   whether its output has a struct column for the main output and for each side output
  * @param metrics
  *   whether the function has its own metrics
  * @param lateOutputs
  *   for each input the index of the output for its late rows; None, or an empty list, if they are
  *   dropped
  * @param rowHandling
  *   how the function takes rows
  * @param outputDelay
  *   how far the event times of results may be behind the watermark, in ms
  */
private[keystate] final case class OperatorSpec(
    name: Option[String],
    maxParallelism: Option[Int],
    timeMode: TimeMode,
    timers: Boolean,
    states: Seq[StateSpec],
    broadcast: Seq[StateSpec] = Nil,
    subtaskState: Option[SubtaskStateSpec] = None,
    sideOutputs: Boolean = false,
    metrics: Boolean = false,
    lateOutputs: Seq[Option[Int]] = Nil,
    rowHandling: RowHandling = RowHandling(),
    outputDelay: Long = 0
) {
  def windows: Option[String] = rowHandling.windows

  def checkpointed: Boolean = subtaskState.nonEmpty

  /** The operator as it continues from a version. Throws if the stored state does not fit.
    *
    * @param recorded
    *   finds a state as the version has it
    */
  def continuing(recorded: String => Option[StateFamily]): OperatorSpec = {
    def continue(state: StateSpec) = SchemaEvolution.continue(state, recorded(state.name))
    copy(
      states = states.map(continue),
      broadcast = broadcast.map(continue),
      subtaskState = subtaskState.map { own =>
        own.copy(lists = OperatorLists.continuing(own.lists, recorded(OperatorState.FamilyName)))
      }
    )
  }

  /** The families in the operator's store, in this order, if it has them: its states, its broadcast
    * states and their tag, its raw keyed state, its operator state, and last its timers. Their ids
    * are for a store that has only these families from the start; an older store assigns ids
    * itself.
    */
  def families: Seq[StateFamily] = {
    val stored = (states ++ broadcast).map(s => (s.name, s.layout, s.properties)) ++
      Option.when(broadcast.nonEmpty)(SystemColumnFamilies.broadcastTagFamily) ++
      subtaskState.filter(_.rawKeyed).map(_ => SystemColumnFamilies.rawKeyedFamily) ++
      subtaskState.map(own => SystemColumnFamilies.operatorStateFamily(own.lists)) ++
      Option.when(timers)(SystemColumnFamilies.timers(windows))
    stored.zipWithIndex.map { case ((name, layout, properties), id) =>
      StateFamily(id, name, layout, properties)
    }
  }
}

/** The state of an operator's subtask without keys.
  *
  * @param lists
  *   the lists of its operator state
  * @param rawKeyed
  *   whether it can have raw keyed state as well
  */
private[keystate] final case class SubtaskStateSpec(
    lists: Seq[StateSpec],
    rawKeyed: Boolean = false
)

/** How a function takes rows.
  *
  * @param lateRows
  *   whether it takes late rows like other rows
  * @param columns
  *   whether its caller reads Arrow columns, not rows
  * @param windows
  *   the clock, the merging and the contents of its windows, if it puts rows into some: its timers
  *   belong to a key and a window then
  */
private[keystate] final case class RowHandling(
    lateRows: Boolean = false,
    columns: Boolean = false,
    windows: Option[String] = None
)

private[keystate] object OperatorSpec {
  private implicit val formats: Formats = DefaultFormats

  def fromJson(json: String): OperatorSpec = {
    val declared = new SpecJson("an operator", JsonMethods.parse(json))
    import declared.field
    OperatorSpec(
      name = field(OperatorFields.Name).extractOpt[String],
      maxParallelism = field(OperatorFields.MaxParallelism).extractOpt[Int],
      timeMode = TimeMode.byName(field(OperatorFields.TimeMode).extract[String]).get,
      timers = field(OperatorFields.Timers).extract[Boolean],
      states = field(OperatorFields.States).children.map(StateSpec.fromJson),
      broadcast = field(OperatorFields.Broadcast).children.map(StateSpec.fromJson),
      subtaskState = Some(
        SubtaskStateSpec(
          field(OperatorFields.OperatorStates).children.map(StateSpec.fromJson),
          field(OperatorFields.RawKeyed).extract[Boolean]
        )
      ).filter(_ => field(OperatorFields.Checkpointed).extract[Boolean]),
      sideOutputs = field(OperatorFields.SideOutputs).extract[Boolean],
      metrics = field(OperatorFields.Metrics).extract[Boolean],
      lateOutputs = field(OperatorFields.LateOutputs).children.map(_.extractOpt[Int]),
      rowHandling = RowHandling(
        field(OperatorFields.TakesLateRows).extract[Boolean],
        field(OperatorFields.TakesColumns).extract[Boolean],
        field(OperatorFields.Windows).extractOpt[String]
      )
    )
  }
}

package keystate.errors

/** Makes the errors that are not of the store's own files, see [[CheckpointException]]. */
object KeystateErrors
    extends SessionErrors
    with DeclarationErrors
    with CallErrors
    with RestartErrors
    with CheckpointErrors

private[errors] object OperatorName {

  /** What follows the word operator in a message: its name, if it has one. */
  def named(operator: Option[String]): String = operator.fold("")(name => s" '$name'")
}

package keystate.errors

/** Makes the errors that are not of the store's own files, see [[CheckpointException]]. */
object KeystateErrors
    extends SessionErrors
    with DeclarationErrors
    with CallErrors
    with RestartErrors
    with CheckpointErrors

private[errors] object OperatorName {

  /** The text after the word operator in a message: the operator's name, if it has one. */
  def named(operator: Option[String]): String = operator.fold("")(name => s" '$name'")
}

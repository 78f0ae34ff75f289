package keystate.version

/** The path of a run file in another checkpoint: `@<base>/<operator>/<partition>/[store/]<name>`. The
  * base is a name that the checkpoint has for the other one, in its folder `_keystate/bases`.
  *
  * @param path
  *   relative to the operator's folder there
  */
final case class SharedPath(base: String, operator: Long, path: String) {
  override def toString: String = s"@$base/$operator/$path"
}

object SharedPath {
  private val Shared = """@([0-9A-Za-z_-]{1,100})/(\d{1,18})/(.+)""".r

  def isShared(path: String): Boolean = path.startsWith("@")

  /** None if this is not such a path. */
  def parse(path: String): Option[SharedPath] = path match {
    case Shared(base, operator, in) => Some(SharedPath(base, operator.toLong, in))
    case _ => None
  }
}

package keystate.errors

/** An error that Keystate raises. Its message begins with the code and says what to do.
  *
  * @param errorCode
  *   its entry in the catalogue
  */
class KeystateException(val errorCode: ErrorCode, message: String, cause: Throwable = null)
    extends RuntimeException(s"[$errorCode] $message", cause) {

  /** The stable name of the kind of error: `KEYSTATE_...`. */
  def code: String = errorCode.name

  /** The SQLSTATE of the kind of error. */
  def sqlState: String = errorCode.sqlState
}

/** A setting has a value that is not allowed. */
final class BadSettingException(
    key: String,
    value: String,
    allowed: String,
    cause: Throwable = null
) extends KeystateException(ErrorCode.BadSetting, s"$key is '$value', and must be $allowed.", cause)

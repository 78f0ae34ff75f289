package keystate.backend

import java.io.File

/** Makes the working copies of stores: what `spark.keystate.backend` names. A backend of your own
  * is a public class that implements this and has a constructor without parameters; set
  * `spark.keystate.backend` to its name.
  *
  * One factory serves one store. The same class is also made on the driver when a query starts, to
  * check the options.
  */
trait StateBackendFactory {

  /** Takes the options `spark.keystate.backend.option.<name>`, by `<name>`. Called once, before
    * anything else. Throw IllegalArgumentException for invalid options: the query then fails with
    * its message.
    */
  def configure(options: Map[String, String]): Unit

  /** Makes an empty backend, each time a version is loaded. The previous backend was closed, or is
    * no longer used and will be closed.
    *
    * @param maxParallelism
    *   the number of key groups; it is also the number of the operator group
    * @param newFolder
    *   makes a local folder, which the backend must delete when it is closed
    */
  def create(maxParallelism: Int, newFolder: () => File): KeyedStateBackend
}

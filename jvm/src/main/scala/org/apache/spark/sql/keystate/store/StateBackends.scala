package org.apache.spark.sql.keystate.store

import scala.util.control.NonFatal

import keystate.backend.StateBackendFactory
import keystate.backend.auto.AutoStateBackendFactory
import keystate.backend.heap.HeapStateBackendFactory
import keystate.backend.rocksdb.{RocksDBConfig, RocksDBStateBackendFactory}
import keystate.config.Settings
import keystate.errors.BadSettingException

/** The backend that the settings name, with its options. */
object StateBackends {
  final val OptionPrefix = "spark.keystate.backend.option."

  /** Makes the factory of a backend.
    *
    * @param withPrefix
    *   the settings whose names begin with a prefix, by their names without it
    */
  def configured(backend: String, withPrefix: String => Map[String, String]): StateBackendFactory =
    backend match {
      case "hashmap" => withOptions(new HeapStateBackendFactory, Map.empty[String, String])
      case "auto" =>
        val options = for {
          kind <- Seq("auto.", "rocksdb.")
          (name, text) <- withPrefix(s"spark.keystate.$kind")
        } yield kind + name -> text
        withOptions(new AutoStateBackendFactory, options.toMap)
      case "rocksdb" =>
        withOptions(new RocksDBStateBackendFactory, withPrefix(RocksDBConfig.Prefix))
      case className => withOptions(instance(className), withPrefix(OptionPrefix))
    }

  private def withOptions(
      factory: StateBackendFactory,
      options: Map[String, String]
  ): StateBackendFactory = {
    factory.configure(options)
    factory
  }

  private def instance(className: String): StateBackendFactory = {
    def unusable(problem: String, cause: Throwable = null) = throw new BadSettingException(
      Settings.Backend.key,
      className,
      "'auto', 'hashmap', 'rocksdb', or a class that implements " +
        s"${classOf[StateBackendFactory].getName}, in a jar that the driver and the executors have " +
        s"(spark.jars); $problem",
      cause
    )
    val loader =
      Option(Thread.currentThread.getContextClassLoader).getOrElse(getClass.getClassLoader)
    // No code of another class is run to find out that it is one.
    val found =
      try Class.forName(className, false, loader)
      catch { case e: ClassNotFoundException => unusable("there is no such class", e) }
    if (!classOf[StateBackendFactory].isAssignableFrom(found))
      unusable("its class is not a StateBackendFactory")
    try found.asSubclass(classOf[StateBackendFactory]).getConstructor().newInstance()
    catch {
      case e: NoSuchMethodException =>
        unusable("its class has no public constructor without parameters", e)
      case NonFatal(e) => unusable(s"its class cannot be instantiated: $e", e)
    }
  }
}

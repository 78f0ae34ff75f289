package keystate.errors

/** Errors in a session, or in its client, before a query runs. */
private[errors] trait SessionErrors {
  import ErrorCode._

  def providerMissing(provider: String, needed: String): KeystateException = ProviderMissing.error(
    s"The state store provider is $provider. Keystate's operators need " +
      s"spark.sql.streaming.stateStore.providerClass=$needed: build the session with " +
      "keystate.configure(SparkSession.builder), or set that key before the query's first start " +
      "(Spark fixes the provider in the checkpoint, so a query that was started with another one " +
      "keeps it)."
  )

  def extensionMissing(extension: String): KeystateException = ExtensionMissing.error(
    s"spark.sql.extensions lacks $extension: start the session with it, an extension can't be added " +
      "to one that is running."
  )

  def otherSpark(builtFor: String, running: String): KeystateException = SparkVersion.error(
    s"This jar of Keystate is for Spark $builtFor, but Spark $running is running: take the jar " +
      s"whose name begins with keystate-spark${running.split('.').take(2).mkString(".")}, or for a " +
      "Python session the path that keystate.jar_path() gives."
  )

  def unknownSetting(key: String, known: Seq[String]): KeystateException =
    BadSetting.error(s"$key is not a setting of Keystate: there are ${known.mkString(", ")}.")

  def unknownCall(method: String, arguments: Int): KeystateException = SparkConnect.error(
    s"The server's jar of Keystate has no call '$method' with $arguments arguments: install the " +
      "same release of Keystate on the client and on the Spark Connect server."
  )

  def badCall(part: String): KeystateException = SparkConnect.error(
    s"The server's jar of Keystate does not understand a client's call: $part. Install the same " +
      "release of Keystate on both."
  )

  def fieldMissing(what: String, field: String): KeystateException = Protocol.error(
    s"The Python package does not say '$field' of $what, which this jar needs: they are of different " +
      "releases. Install the same version of both."
  )

  def sinkNotConfigured(sink: String): KeystateException = ExtensionMissing.error(
    s"The sink '$sink' needs a session that keystate.configure(SparkSession.builder) has built, and " +
      "Keystate's state store provider: it commits with Spark's commit log."
  )

  def kafkaMissing(format: String, cause: Throwable): KeystateException = ExtensionMissing.error(
    s"The format '$format' needs Spark's package for Kafka: start the session with " +
      "--packages org.apache.spark:spark-sql-kafka-0-10_2.13 of your Spark's version.",
    cause
  )

  def sinkNeedsBatches(sink: String, mode: String): KeystateException = Declaration.error(
    s"The sink '$sink' can't be used with $mode: it commits with whole micro-batches. Use another " +
      "trigger, or without it."
  )
}

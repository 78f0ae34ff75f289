package keystate.files

/** One store of one partition of a stateful operator. */
final case class StoreLocation(operator: Long, partition: Int, store: String) {

  /** The folder of the store's files, below the operator's folder, in Spark's layout: the store
    * with the default name has no folder of its own.
    */
  val folder: String =
    if (store == StoreLocation.DefaultStore) partition.toString else s"$partition/$store"

  override def toString: String = s"operator $operator, partition $partition" +
    (if (store == StoreLocation.DefaultStore) "" else s", store $store")
}

object StoreLocation {
  val DefaultStore = "default"
}

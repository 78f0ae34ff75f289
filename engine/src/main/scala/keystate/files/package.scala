package keystate

/** The files of a checkpoint as this code sees them: a storage that writes files whole, a local
  * scratch folder, checksums, and the place of a store. The storage over Hadoop is in
  * `org.apache.spark.sql.keystate.files`. Not public.
  */
package object files

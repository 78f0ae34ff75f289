package keystate

/** The committed versions of a store: the manifest, the version file, the rules for a manifest, and
  * the run files that a manifest names. A run file has the sorted changes of one or more versions;
  * it is plain, in sections with an index, or an SST file of RocksDB. Part of the file format. Not
  * public.
  */
package object version

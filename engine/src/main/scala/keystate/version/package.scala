package keystate

/** What a committed version of a store is: its manifest, the version file, the rules that a
  * manifest has to keep, and the run files that it names: sorted changes of one or more versions,
  * plain, in sections with an index, or as RocksDB's SST files. Part of the file format. Not
  * public.
  */
package object version

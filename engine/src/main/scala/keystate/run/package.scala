package keystate

/** The formats of run files: sorted changes of one or more versions, plain, in sections with an
  * index, or as RocksDB's SST files. Part of the file format. Not public.
  */
package object run

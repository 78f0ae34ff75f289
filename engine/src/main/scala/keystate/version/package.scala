package keystate

/** What a committed version of a store is: its manifest, the version file, and the rules that a
  * manifest has to keep. Part of the file format. Not public.
  */
package object version

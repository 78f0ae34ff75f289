package keystate

/** The versions of a store: commit, load, maintenance, rescaling, and reading them from outside. It
  * works on any backend and any storage, and knows nothing of Spark; the classes say why a crash at
  * any point loses nothing. Not public.
  */
package object checkpoint

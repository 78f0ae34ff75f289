package keystate.backend

/** Filters that tell of most keys that are not stored that they are not, without asking for them.
  * Not public.
  */
package object filter

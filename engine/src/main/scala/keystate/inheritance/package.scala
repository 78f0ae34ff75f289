package keystate

/** What closed stores leave in memory for stores of the same state that are opened next, in the same
  * JVM. Not public.
  */
package object inheritance

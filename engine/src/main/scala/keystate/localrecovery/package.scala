package keystate

/** Task-local recovery: what closed stores keep in memory for stores of the same state that are
  * opened next in the same JVM, and which executors have it. Not public.
  */
package object localrecovery

package keystate

/** Patterns of rows, without Spark: what they are compiled into, and the two ways to find matches.
  * Knows rows only by their numbers and times, and conditions by their numbers. Not public.
  */
package object pattern

package keystate

/** Time to live: when entries expire, how they are hidden, and how they are swept. It wraps the
  * entries of any backend. Not public.
  */
package object ttl

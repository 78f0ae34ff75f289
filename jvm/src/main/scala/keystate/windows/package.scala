package keystate

/** Windows of keyed streams, under Flink's names: assigners, triggers, evictors, functions, and the
  * keyed functions that they become, made of states and timers. Public API. `keystate.stream` has
  * the calls.
  */
package object windows

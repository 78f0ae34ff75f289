package keystate

/** Sinks that write exactly once into systems with transactions. */
package object sinks

package keystate.backend

/** Scans over several key groups, and scans beside which entries change. */
package object scan

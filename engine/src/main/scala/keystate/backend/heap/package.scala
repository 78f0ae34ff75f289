package keystate.backend

/** The backend on the heap, `hashmap`: tables of bytes by key group. Not public. */
package object heap

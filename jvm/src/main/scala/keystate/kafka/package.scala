package keystate

/** Results for Kafka. */
package object kafka

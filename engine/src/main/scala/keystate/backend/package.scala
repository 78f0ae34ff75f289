package keystate

/** State backends hold entries by family, key group and key, with one transaction at a time. This
  * package has the contract ([[keystate.backend.KeyedStateBackend]]), the form of stored keys and
  * values, and the parts that the backends share: scans over several key groups, and time to live,
  * which wraps the entries of any backend. The contract and
  * [[keystate.backend.StateBackendFactory]] are public, for third-party backends; the rest is not.
  * This package does not depend on Spark.
  */
package object backend

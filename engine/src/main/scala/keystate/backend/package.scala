package keystate

/** What a state backend is: it holds entries by family, key group and key, with one transaction at
  * a time. Here are the contract ([[keystate.backend.KeyedStateBackend]]), the form of stored keys
  * and values, and what the backends share: scans over several key groups, and time to live, which
  * wraps the entries of any backend. The contract and [[keystate.backend.StateBackendFactory]] are
  * public, for backends of others; the rest is not. Nothing here knows of Spark.
  */
package object backend

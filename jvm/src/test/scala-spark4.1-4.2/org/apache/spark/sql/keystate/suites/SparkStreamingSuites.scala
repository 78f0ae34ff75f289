package org.apache.spark.sql.keystate.suites

import org.scalatest.tags.Slow

import org.apache.spark.sql.streaming._

// Spark's own suites of stateful operators, on our provider.

@Slow class KeystateAggregationSuite extends StreamingAggregationSuite with OnKeystate
@Slow class KeystateAggregationOnRocksDBSuite
    extends StreamingAggregationSuite
    with OnKeystateWithRocksDB
@Slow class KeystateDeduplicationSuite extends StreamingDeduplicationSuite with OnKeystate
@Slow class KeystateDeduplicationOnRocksDBSuite
    extends StreamingDeduplicationSuite
    with OnKeystateWithRocksDB
@Slow class KeystateDeduplicationWithinWatermarkSuite
    extends StreamingDeduplicationWithinWatermarkSuite
    with OnKeystate
@Slow class KeystateSessionWindowSuite extends StreamingSessionWindowSuite with OnKeystate
@Slow class KeystateFlatMapGroupsSuite extends FlatMapGroupsWithStateSuite with OnKeystate
@Slow class KeystateFlatMapGroupsInitialStateSuite
    extends FlatMapGroupsWithStateWithInitialStateSuite
    with OnKeystate
@Slow class KeystateMultiStatefulOperatorsSuite extends MultiStatefulOperatorsSuite with OnKeystate
@Slow class KeystateEventTimeWatermarkSuite extends EventTimeWatermarkSuite with OnKeystate
@Slow class KeystateStreamSuite extends StreamSuite with OnKeystate
@Slow class KeystateStreamingQuerySuite extends StreamingQuerySuite with OnKeystate
@Slow class KeystateQueryListenerSuite extends StreamingQueryListenerSuite with OnKeystate
@Slow class KeystateQueryStatusAndProgressSuite
    extends StreamingQueryStatusAndProgressSuite
    with OnKeystate
@Slow class KeystateSelfUnionSuite extends StreamingSelfUnionSuite with OnKeystate
@Slow class KeystateOptimizationCorrectnessSuite
    extends StreamingQueryOptimizationCorrectnessSuite
    with OnKeystate
@Slow class KeystateTriggerAvailableNowSuite extends TriggerAvailableNowSuite with OnKeystate
@Slow class KeystateAggregationDistributionSuite
    extends StreamingAggregationDistributionSuite
    with OnKeystate
@Slow class KeystateDeduplicationDistributionSuite
    extends StreamingDeduplicationDistributionSuite
    with OnKeystate
@Slow class KeystateSessionWindowDistributionSuite
    extends StreamingSessionWindowDistributionSuite
    with OnKeystate
@Slow class KeystateFlatMapGroupsDistributionSuite
    extends FlatMapGroupsWithStateDistributionSuite
    with OnKeystate

@Slow class KeystateTransformWithStateAvroSuite extends TransformWithStateAvroSuite with OnKeystate
@Slow class KeystateTransformWithStateUnsafeRowSuite
    extends TransformWithStateUnsafeRowSuite
    with OnKeystate
@Slow class KeystateTransformWithStateValidationSuite
    extends TransformWithStateValidationSuite
    with OnKeystate
@Slow class KeystateTransformWithListStateSuite extends TransformWithListStateSuite with OnKeystate
@Slow class KeystateTransformWithMapStateSuite extends TransformWithMapStateSuite with OnKeystate
@Slow class KeystateTransformWithValueStateTTLSuite
    extends TransformWithValueStateTTLSuite
    with OnKeystate
@Slow class KeystateTransformWithListStateTTLSuite
    extends TransformWithListStateTTLSuite
    with OnKeystate
@Slow class KeystateTransformWithMapStateTTLSuite
    extends TransformWithMapStateTTLSuite
    with OnKeystate
@Slow class KeystateTransformWithStateInitialStateSuite
    extends TransformWithStateInitialStateSuite
    with OnKeystate
@Slow class KeystateTransformWithStateInitialStateV2Suite
    extends TransformWithStateInitialStateSuiteCheckpointV2
    with OnKeystate
@Slow class KeystateTransformWithStateChainingSuite
    extends TransformWithStateChainingSuite
    with OnKeystate

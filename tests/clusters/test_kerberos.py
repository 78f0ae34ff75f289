"""YARN and HDFS that take nobody without Kerberos."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.clusters import accounts
from tests.clusters.shipped import Shipped
from tests.clusters.submitted import SLOWLY, TO_THE_END, submitted
from tests.clusters.yarn_cluster import yarn
from tests.fault.drivers import SPARK_HOME, Started
from tests.stores.secured_hdfs import TOKEN_S, USER, SecuredHdfs, secured_hdfs

HOST, MEMORY_MB = "127.0.0.2", 3072
CHECKPOINT = "/query/checkpoint"


def batches(store: SecuredHdfs) -> int:
    """How many micro-batches are in the commit log."""
    commits = store.files(f"{CHECKPOINT[1:]}/commits/")
    return sum(path.rsplit("/", 1)[1].isdigit() for path in commits)


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: waits until tokens have ended")
def test_tokens_end_and_executors_and_drivers_go(shipment: Shipped, tmp_path: Path) -> None:
    """Only the driver has the keytab. What it hands to executors ends while they run.

    Executors know no Kerberos server. One is killed, then the driver, which YARN starts again; the
    application is ended, and another one goes on with other partitions.
    """
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    expected = accounts.make_input(tmp_path, seed)
    later = tmp_path / "later"
    later.mkdir()
    for file in sorted((tmp_path / "input").glob("*.parquet"))[accounts.FILES // 2 :]:
        file.rename(later / file.name)

    def go_on() -> None:
        """One more file for the query."""
        file = min(later.iterdir())
        file.rename(tmp_path / "input" / file.name)

    with secured_hdfs(tmp_path) as store:
        kerberos = f"-Djava.security.krb5.conf={store.krb5}"
        # Only what the driver gives them lets executors in.
        nobody = f"-Djava.security.krb5.realm={store.realm} -Djava.security.krb5.kdc=localhost:1"
        own = {
            "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.instances": "2",
            "spark.eventLog.enabled": "false",
            "spark.driver.extraJavaOptions": kerberos,
            "spark.executor.extraJavaOptions": f"-XX:TieredStopAtLevel=1 {nobody}",
        }
        options = ["--master", "yarn", "--deploy-mode", "cluster"]
        options += ["--principal", f"{USER}@{store.realm}", "--keytab", str(store.keytab)]
        with yarn(tmp_path / "yarn", store.url, store.settings(), [kerberos]) as cluster:
            cluster.start_node(HOST, MEMORY_MB)
            told = {**cluster.environment(), "SPARK_SUBMIT_OPTS": kerberos}

            def query(partitions: int, trigger: str) -> Started:
                return submitted(
                    shipment,
                    tmp_path,
                    partitions,
                    trigger,
                    options,
                    own,
                    checkpoint=CHECKPOINT,
                    **told,
                )

            def next_batch(submit: Started) -> None:
                before = batches(store)
                submit.wait_for(lambda: batches(store) > before)

            with query(2, SLOWLY) as submit:
                submit.wait_for(lambda: len(cluster.executors(HOST)) == 2)
                first = set(cluster.executors(HOST))
                submit.wait_for(lambda: batches(store) == accounts.FILES // 2)
                time.sleep(TOKEN_S * 1.2)
                go_on()
                next_batch(submit)
                assert set(cluster.executors(HOST)) == first
                submit.kill(min(first))
                submit.wait_for(lambda: bool(set(cluster.executors(HOST)) - first))
                go_on()
                next_batch(submit)
                (driven,) = cluster.masters(HOST)
                submit.kill(driven)
                go_on()
                next_batch(submit)
                cluster.end_application(KRB5CCNAME=str(store.ticket))
                submit.wait()
            while list(later.iterdir()):
                go_on()
            with query(3, TO_THE_END) as submit:
                assert submit.wait(500) == 0, submit.log
            ended = cluster.applications(KRB5CCNAME=str(store.ticket))
            assert ended == ["KILLED", "FINISHED"]
            assert accounts.emitted(tmp_path) == expected
            ticket = {"KRB5CCNAME": str(store.ticket), "JAVA_TOOL_OPTIONS": kerberos}
            checkpoint = f"{store.url}{CHECKPOINT}"
            assert accounts.is_whole(checkpoint, **cluster.environment(), **ticket)
            assert not accounts.is_whole(
                checkpoint, **cluster.environment(), **{**ticket, "KRB5CCNAME": "/none"}
            )

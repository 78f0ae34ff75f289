"""The files of examples/kubernetes say the same, and what a session with Keystate needs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml
from keystate._jvm import session

from tests.clusters.api_server import api_server
from tests.clusters.shipped import SETTINGS
from tests.fault.drivers import SPARK_HOME

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
DEFAULT = session.versions()["sparks"].split()[0]
LINE = ".".join(DEFAULT.split(".")[:2])


@pytest.fixture(scope="module")
def application() -> Any:
    """The SparkApplication."""
    return yaml.safe_load((FOLDER / "spark-application.yaml").read_text())


@pytest.fixture(scope="module")
def submitted() -> dict[str, list[str]]:
    """The options of submit.sh; those that are not `--conf` by name, the rest under ``""``."""
    show = 'spark-submit() { printf "%q\\n" "$@"; }; exec() { "$@"; }; . ./submit.sh k8s://api'
    run = subprocess.run(
        ["bash", "-c", show], cwd=FOLDER, capture_output=True, text=True, check=True, timeout=20
    )
    words = [shlex.split(line)[0] for line in run.stdout.splitlines()]
    found: dict[str, list[str]] = {"": []}
    while words:
        word = words.pop(0)
        if word == "--conf":
            key, value = words.pop(0).split("=", 1)
            found[key] = [value]
        elif word.startswith("--") and not found[""]:
            found[word] = [words.pop(0)]
        else:
            found[""].append(word)
    return found


def test_the_operator_knows_the_application(application: Any) -> None:
    """What the operator's schema requires, and what it takes for other words than these."""
    assert application["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    assert application["kind"] == "SparkApplication"
    spec = application["spec"]
    required = {"driver", "executor", "mainApplicationFile", "sparkVersion", "type"}
    assert required <= set(spec)
    assert (spec["type"], spec["mode"]) == ("Python", "cluster")
    assert spec["restartPolicy"]["type"] == "Always"
    assert all(isinstance(value, str) for value in spec["sparkConf"].values())
    assert all(isinstance(value, str) for value in spec["arguments"])
    mounts = spec["executor"]["volumeMounts"]
    assert {mount["name"] for mount in mounts} == {volume["name"] for volume in spec["volumes"]}
    # Only then does Spark keep its local files there.
    assert all(mount["name"].startswith("spark-local-dir-") for mount in mounts)


def test_settings_are_those_of_a_session(application: Any, submitted: dict[str, Any]) -> None:
    assert SETTINGS.items() <= application["spec"]["sparkConf"].items()
    assert {key: [value] for key, value in SETTINGS.items()}.items() <= submitted.items()


def test_both_ways_start_the_same(application: Any, submitted: dict[str, Any]) -> None:
    spec = application["spec"]
    executor, driver = spec["executor"], spec["driver"]
    volume = "spark.kubernetes.executor.volumes.emptyDir.spark-local-dir-1"
    own = {
        **spec["sparkConf"],
        "spark.kubernetes.container.image": spec["image"],
        "spark.kubernetes.authenticate.driver.serviceAccountName": driver["serviceAccount"],
        "spark.driver.memory": driver["memory"],
        "spark.driver.cores": str(driver["cores"]),
        "spark.executor.instances": str(executor["instances"]),
        "spark.executor.cores": str(executor["cores"]),
        "spark.executor.memory": executor["memory"],
        "spark.executor.memoryOverhead": executor["memoryOverhead"],
        f"{volume}.mount.path": executor["volumeMounts"][0]["mountPath"],
        f"{volume}.options.sizeLimit": spec["volumes"][0]["emptyDir"]["sizeLimit"],
        "--packages": ",".join(spec["deps"]["packages"]),
        "--deploy-mode": spec["mode"],
        "--name": application["metadata"]["name"],
    }
    assert {key: [value] for key, value in own.items()}.items() <= submitted.items()
    assert submitted[""] == [spec["mainApplicationFile"], *spec["arguments"]]
    for kind, part in (("driver", driver), ("executor", executor)):
        template = f"spark.kubernetes.{kind}.podTemplateFile"
        (path,) = submitted[template]
        pod = yaml.safe_load((FOLDER / path).read_text())
        assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
        grace = part["terminationGracePeriodSeconds"]
        assert pod["spec"] == {"terminationGracePeriodSeconds": grace}


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: ten seconds")
def test_spark_submit_takes_it(application: Any) -> None:
    """What spark-submit asks of Kubernetes for submit.sh, apart from the packages.

    These it would download first.
    """
    submit = """
        spark-submit() {
          local kept=(--conf spark.kubernetes.submission.waitAppCompletion=false)
          while (( $# )); do
            if [ "$1" = --packages ]; then shift; else kept+=("$1"); fi; shift
          done
          "$SPARK_HOME/bin/spark-submit" "${kept[@]}"
        }
        exec() { "$@"; }
    """
    told = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    with api_server() as server:
        program = f"{submit}\n. ./submit.sh {server.master}"
        subprocess.run(["bash", "-c", program], cwd=FOLDER, env=told, check=True, timeout=100)
    (pod,) = server.of_kind("Pod")
    spec, declared = pod["spec"], application["spec"]
    (container,) = spec["containers"]
    driver, executor = declared["driver"], declared["executor"]
    assert container["image"] == declared["image"]
    assert container["args"][-len(declared["arguments"]) :] == declared["arguments"]
    assert spec["serviceAccountName"] == driver["serviceAccount"]
    assert spec["terminationGracePeriodSeconds"] == driver["terminationGracePeriodSeconds"]
    # What the driver has for its executors.
    data = {
        name: text for each in server.of_kind("ConfigMap") for name, text in each["data"].items()
    }
    template = yaml.safe_load(data["podspec-configmap-key"])
    grace = template["spec"]["terminationGracePeriodSeconds"]
    assert grace == executor["terminationGracePeriodSeconds"]
    settings = dict(re.findall(r"^([\w.-]+)=(.*)$", data["spark.properties"], re.M))
    assert declared["sparkConf"].items() <= settings.items()


def test_one_spark(application: Any) -> None:
    """The image has a tested patch of the default line; the packages are for it and its Hadoop."""
    spec = application["spec"]
    spark = spec["sparkVersion"]
    known = session.versions()
    assert spark in (known["sparks"] + " " + known["patches"]).split() and spark.startswith(LINE)
    packages = dict(package.rsplit(":", 1) for package in spec["deps"]["packages"])
    assert packages["org.apache.spark:spark-sql-kafka-0-10_2.13"] == spark
    image = (FOLDER / "Containerfile").read_text()
    assert f"FROM docker.io/apache/spark:{spark}-" in image
    assert f"keystate-spark{LINE}_*.jar" in image
    (example,) = re.findall(r"^COPY (examples/\S+) /opt/app/main.py$", image, re.M)
    assert (FOLDER.parents[1] / example).exists()
    assert spec["mainApplicationFile"] == "local:///opt/app/main.py"
    if pyspark.__version__.startswith(f"{LINE}."):
        jars = Path(pyspark.__file__).parent / "jars"
        assert (jars / f"hadoop-client-api-{packages['org.apache.hadoop:hadoop-aws']}.jar").exists()

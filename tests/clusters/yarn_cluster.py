"""YARN on loopback: a resource manager, and a node manager on each of some addresses."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from tests.fault.drivers import SPARK_HOME, Started
from tests.stores.artifacts import jars
from tests.stores.ports import free_port

SERVER = "org.apache.hadoop.yarn.server"


class Yarn:
    """A cluster, all of whose files are in a folder. What runs in its containers dies with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "yarn"
        host = "127.0.0.1"
        self._settings = {
            "fs.defaultFS": "file:///",
            "hadoop.tmp.dir": str(self._folder / "hadoop"),
            "yarn.resourcemanager.hostname": host,
            **{
                f"yarn.resourcemanager.{name}": f"{host}:{free_port()}"
                for name in (
                    "address",
                    "admin.address",
                    "resource-tracker.address",
                    "scheduler.address",
                    "webapp.address",
                )
            },
            "yarn.resourcemanager.scheduler.class": (
                f"{SERVER}.resourcemanager.scheduler.fifo.FifoScheduler"
            ),
            "yarn.resourcemanager.nodes.exclude-path": str(self._folder / "excluded"),
            "yarn.scheduler.minimum-allocation-mb": "64",
            "yarn.nodemanager.resource.memory-mb": "3072",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            # The machine of the tests may have little room, and JVMs reserve more than they use.
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.delete.debug-delay-sec": "0",
        }
        self._folder.mkdir()
        (self._folder / "excluded").touch()
        self.client = self._site("client", {})

    def _site(self, name: str, settings: dict[str, str]) -> Path:
        """A folder of settings, as HADOOP_CONF_DIR names one."""
        folder = self._folder / "conf" / name
        folder.mkdir(parents=True)
        site = ElementTree.Element("configuration")
        for key, value in {**self._settings, **settings}.items():
            setting = ElementTree.SubElement(site, "property")
            ElementTree.SubElement(setting, "name").text = key
            ElementTree.SubElement(setting, "value").text = value
        for file in ("core-site.xml", "yarn-site.xml"):
            ElementTree.ElementTree(site).write(folder / file)
        return folder

    def _java(self, site: Path, main: str) -> list[str]:
        path = ":".join(map(str, [site, *jars("hdfs")]))
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Dyarn.log.dir={self._folder}"]
        return ["java", *options, "-cp", path, main]

    @contextlib.contextmanager
    def started(self, hosts: list[str]) -> Iterator[Yarn]:
        with contextlib.ExitStack() as processes:
            processes.callback(self._kill_containers)

            def start(main: str, log: str, site: Path) -> Started:
                command = self._java(site, f"{SERVER}.{main}")
                alone = {"PYTHONPATH": "", "HADOOP_CONF_DIR": str(site)}
                return processes.enter_context(Started(command, self._folder / log, **alone))

            manager = start("resourcemanager.ResourceManager", "manager.log", self.client)
            for host in hosts:
                own = {
                    "yarn.nodemanager.hostname": host,
                    "yarn.nodemanager.address": f"{host}:0",
                    "yarn.nodemanager.localizer.address": f"{host}:0",
                    "yarn.nodemanager.webapp.address": f"{host}:0",
                    "yarn.nodemanager.collector-service.address": f"{host}:0",
                    "yarn.nodemanager.local-dirs": str(self._folder / "local" / host),
                    "yarn.nodemanager.log-dirs": str(self._folder / "logs" / host),
                }
                start("nodemanager.NodeManager", f"{host}.log", self._site(host, own))
            for host in hosts:
                manager.text(rf"({host}:\d+) Node Transitioned from NEW to RUNNING")
            yield self

    def decommission(self, host: str, grace_s: int) -> None:
        """Takes a node away; its containers have this long to end."""
        (self._folder / "excluded").write_text(f"{host}\n")
        command = self._java(self.client, "org.apache.hadoop.yarn.client.cli.RMAdminCLI")
        command += ["-refreshNodes", "-g", str(grace_s), "-server"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def containers(self, kind: str) -> list[int]:
        """The processes of containers with this in their command."""
        return [pid for pid, command in self._processes() if kind.encode() in command]

    def local_files(self, host: str) -> list[Path]:
        """What containers have left on a node."""
        return [path for path in (self._folder / "local" / host).rglob("*") if path.is_file()]

    def _processes(self) -> Iterator[tuple[int, bytes]]:
        """JVMs in containers: each container is a session of its own, and works in its folder."""
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "cwd").startswith(str(self._folder / "local")):
                    yield int(process.name), (process / "cmdline").read_bytes()

    def _kill_containers(self) -> None:
        deadline = time.monotonic() + 30
        while left := list(self._processes()):
            for pid, _ in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline, f"they don't die: {left}"
            time.sleep(0.05)
        shutil.rmtree(self._folder / "local", ignore_errors=True)


def submission(yarn: Yarn, mode: str) -> tuple[list[str], dict[str, str]]:
    """The beginning of a spark-submit, and its environment."""
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
    # Else each start packs Spark's jars and has the nodes unpack them.
    command += ["--conf", f"spark.yarn.jars=local:{SPARK_HOME}/jars/*"]
    return command, {"HADOOP_CONF_DIR": str(yarn.client), "PYTHONPATH": ""}

"""YARN on loopback: a resource manager, and node managers that come and go, each a process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tests.fault.drivers import SPARK_HOME, Started
from tests.stores.artifacts import jars
from tests.stores.ports import free_port

HOST = "127.0.0.1"
_SERVER = "org.apache.hadoop.yarn.server"
_CLIENT = "org.apache.hadoop.yarn.client.cli"
#: Of the daemons, which are small. That of Hadoop 3.4 makes classes by what Java closed later.
_JAVA = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
_JAVA += ["--add-opens=java.base/java.lang=ALL-UNNAMED"]
_LOGGING = f"""log4j.rootLogger=WARN,out
log4j.logger.{_SERVER}.nodemanager.NodeStatusUpdaterImpl=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{{1}}: %m%n
"""


def _configure(folder: Path, settings: dict[str, str]) -> Path:
    """Writes a folder of settings, as `HADOOP_CONF_DIR` names one."""
    folder.mkdir(parents=True)
    lines = [
        f"<property><name>{key}</name><value>{escape(value)}</value></property>"
        for key, value in settings.items()
    ]
    # Both files: Spark reads them as YARN does.
    for name in ("core-site.xml", "yarn-site.xml"):
        (folder / name).write_text("\n".join(["<configuration>", *lines, "</configuration>"]))
    (folder / "log4j.properties").write_text(_LOGGING)
    return folder


class Yarn:
    """A cluster; its file system is that of the machine unless it is told of another one."""

    def __init__(
        self,
        folder: Path,
        processes: contextlib.ExitStack,
        files: str,
        settings: dict[str, str],
        java: list[str],
    ) -> None:
        self._folder = folder
        self._own_java = java
        self._processes = processes
        self._excluded = folder / "excluded"
        self._excluded.write_text("")
        self._web = f"{HOST}:{free_port()}"
        self._settings = {
            "fs.defaultFS": files,
            # HDFS on one machine has one data node.
            "dfs.replication": "1",
            "hadoop.tmp.dir": str(folder / "hadoop"),
            "yarn.node-attribute.fs-store.root-dir": (folder / "attributes").as_uri(),
            "yarn.resourcemanager.hostname": HOST,
            "yarn.resourcemanager.webapp.address": self._web,
            "yarn.resourcemanager.nodes.exclude-path": str(self._excluded),
            "yarn.resourcemanager.decommissioning-nodes-watcher.poll-interval-secs": "1",
            "yarn.scheduler.minimum-allocation-mb": "256",
            # The default scheduler asks for a queue.
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": "100",
            "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
            # What is shipped, and logs, are kept no longer than they are used.
            "yarn.nodemanager.localizer.cache.target-size-mb": "0",
            "yarn.nodemanager.localizer.cache.cleanup.interval-ms": "1000",
            "yarn.nodemanager.log.retain-seconds": "1",
            **settings,
        }
        for part in ("", ".scheduler", ".resource-tracker", ".admin"):
            self._settings[f"yarn.resourcemanager{part}.address"] = f"{HOST}:{free_port()}"
        self._conf = _configure(folder / "conf", self._settings)
        manager = f"{_SERVER}.resourcemanager.ResourceManager"
        self.manager = self._start(manager, self._conf, "resource-manager")
        self.manager.wait_for(self._is_up, 120)

    def environment(self) -> dict[str, str]:
        """What spark-submit must be told."""
        return {"HADOOP_CONF_DIR": str(self._conf)}

    def settings(self) -> dict[str, str]:
        """What spark-submit needs so that nothing but what is shipped is copied.

        Spark is that of the machine.
        """
        return {
            "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
            "spark.yarn.stagingDir": self.staging.as_uri(),
        }

    @property
    def staging(self) -> Path:
        """Where spark-submit puts what YARN brings to the containers."""
        return self._folder / "staging"

    @property
    def local(self) -> Path:
        """What nodes bring to containers, and the work of these, each in a folder of its host."""
        return self._folder / "local"

    def left(self) -> list[Path]:
        """The files of applications: staged, shipped, of their work, and logs."""
        folders = [self.staging, self.local, self._folder / "logs"]
        return [path for folder in folders for path in folder.rglob("*") if path.is_file()]

    def start_node(self, host: str, memory_mb: int) -> Started:
        """A node manager on one of this machine's addresses, seen by the resource manager.

        Args:
            host: an address without a name, or it would be known by that.
            memory_mb: for containers.
        """
        own = {
            "yarn.nodemanager.resource.memory-mb": str(memory_mb),
            "yarn.nodemanager.local-dirs": str(self.local / host),
            "yarn.nodemanager.log-dirs": str(self._folder / "logs" / host),
        }
        for part in ("", ".localizer", ".webapp"):
            own[f"yarn.nodemanager{part}.address"] = f"{host}:0"
        conf = _configure(self._folder / f"conf-{host}", {**self._settings, **own})
        node = self._start(f"{_SERVER}.nodemanager.NodeManager", conf, f"node-{host}")
        node.text("(Registered with ResourceManager)")
        return node

    def nodes(self, state: str) -> list[str]:
        """The hosts of the nodes in a state."""
        found = self._get(f"nodes?states={state}")["nodes"] or {}
        nodes = found.get("node", []) if isinstance(found, dict) else found
        return [node.get("nodeHostName") or node["nodeId"].partition(":")[0] for node in nodes]

    def applications(self, **environment: str) -> list[str]:
        """The states of all applications, the first one first; the command is told this besides."""
        return [state for _, state in self._applications(**environment)]

    def logs(self) -> list[str]:
        """What `yarn logs` prints of each application, the first one first."""
        command = [f"{_CLIENT}.LogsCLI", "-applicationId"]
        return [self._run(*command, name) for name, _ in self._applications()]

    def decommission(self, host: str, seconds: int) -> None:
        """Tells YARN to let a node go.

        Args:
            host: of the node.
            seconds: what is left there is ended after them.
        """
        self._excluded.write_text(host)
        self._run(f"{_CLIENT}.RMAdminCLI", "-refreshNodes", "-g", str(seconds), "-server")

    def end_application(self, **environment: str) -> None:
        """Ends the newest one, as an operator does, who is told this besides."""
        newest, _ = self._applications(**environment)[-1]
        self._run(f"{_CLIENT}.ApplicationCLI", "application", "-kill", newest, **environment)

    def put(self, file: Path, folder: str) -> None:
        """Copies a file into a folder of the cluster's file system, which is made."""
        shell = "org.apache.hadoop.fs.FsShell"
        self._run(shell, "-mkdir", "-p", folder)
        self._run(shell, "-put", str(file), folder)

    def executors(self, host: str) -> list[int]:
        return self._containers(host, b"ExecutorBackend")

    def masters(self, host: str) -> list[int]:
        """Application masters. In cluster mode they are drivers."""
        return self._containers(host, b"deploy.yarn.ApplicationMaster") + self._containers(
            host, b"deploy.yarn.ExecutorLauncher"
        )

    def kill_containers(self) -> None:
        """What outlives its node manager."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if Path(os.readlink(folder / "cwd")).is_relative_to(self.local):
                    os.kill(int(folder.name), signal.SIGKILL)

    def _containers(self, host: str, kind: bytes) -> list[int]:
        """The JVMs of containers: their temporary folder is in the node's."""
        place = str(self.local / host).encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                program, *arguments = (folder / "cmdline").read_bytes().split(b"\0")
                said = b" ".join(arguments)
                if program.endswith(b"java") and place in said and kind in said:
                    found.append(int(folder.name))
        return found

    def _applications(self, **environment: str) -> list[tuple[str, str]]:
        """The names and states of all, the first one first."""
        command = [f"{_CLIENT}.ApplicationCLI", "application", "-list", "-appStates", "ALL"]
        listed = self._run(*command, **environment).splitlines()
        rows = [line.split("\t") for line in listed if line.startswith("application_")]
        return sorted((row[0].strip(), row[5].strip()) for row in rows)

    def _run(self, *command: str, **environment: str) -> str:
        """Runs a command of Hadoop's to its end, and returns what it printed."""
        told = {**os.environ, **environment}
        run = [*self._java(self._conf), *command]
        return subprocess.run(
            run, check=True, timeout=100, env=told, stdout=subprocess.PIPE, text=True
        ).stdout

    def _java(self, conf: Path) -> list[str]:
        path = [str(conf), *map(str, jars("yarn"))]
        temporary = f"-Djava.io.tmpdir={self._folder}"
        return ["java", *_JAVA, *self._own_java, temporary, "-cp", ":".join(path)]

    def _start(self, program: str, conf: Path, name: str) -> Started:
        java = Path(shutil.which("java") or "").resolve()
        # Containers get the home of Java from there.
        told = {"JAVA_HOME": os.environ.get("JAVA_HOME", str(java.parents[1])), "PYTHONPATH": ""}
        log = self._folder / f"{name}.log"
        return self._processes.enter_context(Started([*self._java(conf), program], log, **told))

    def _is_up(self) -> bool:
        with contextlib.suppress(OSError):
            said = self._get("info")
            return bool(said.get("clusterInfo", said)["state"] == "STARTED")
        return False

    def _get(self, what: str) -> dict[str, Any]:
        """What the resource manager says. That of Hadoop 3.4 leaves out names, and applications."""
        url = f"http://{self._web}/ws/v1/cluster/{what}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)  # type: ignore[no-any-return]


@contextlib.contextmanager
def yarn(
    folder: Path,
    files: str = "file:///",
    settings: dict[str, str] | None = None,
    java: list[str] | None = None,
) -> Iterator[Yarn]:
    """A cluster without nodes yet, whose own files are in the folder.

    Args:
        folder: is made.
        files: the default file system.
        settings: of Hadoop, besides those that it has anyway.
        java: options of its processes, but for containers.
    """
    folder.mkdir()
    with contextlib.ExitStack() as processes:
        cluster = Yarn(folder, processes, files, settings or {}, java or [])
        processes.callback(cluster.kill_containers)
        yield cluster

"""HDFS on loopback that takes nobody without a ticket or a token of Kerberos."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.fault.drivers import Started
from tests.stores.artifacts import HERE, jars

#: Who runs the query. It owns `/query`, which nobody else may open.
USER = "somebody"
#: How long a delegation token is valid. YARN starts a driver with what was handed over by then.
TOKEN_S = 60


class SecuredHdfs:
    """A cluster with its Kerberos server."""

    def __init__(self, url: str, realm: str, files: str, folder: Path) -> None:
        self.url, self.realm = url, realm
        self._files = files
        self._secrets = folder / "secrets"

    @property
    def krb5(self) -> Path:
        """Where the Kerberos server is, as Java reads it."""
        return self._secrets / "krb5.conf"

    @property
    def keytab(self) -> Path:
        """Of the user."""
        return self._secrets / "user.keytab"

    @property
    def ticket(self) -> Path:
        """A ticket of the user, as `kinit` leaves it."""
        return self._secrets / "ticket"

    def settings(self) -> dict[str, str]:
        """What Hadoop must be told, also YARN's servers."""
        settings = {
            "hadoop.security.authentication": "kerberos",
            "dfs.namenode.kerberos.principal": f"hdfs/localhost@{self.realm}",
            "dfs.data.transfer.protection": "authentication",
        }
        for server in ("resourcemanager", "nodemanager"):
            settings[f"yarn.{server}.principal"] = f"yarn/localhost@{self.realm}"
            settings[f"yarn.{server}.keytab"] = str(self._secrets / "servers.keytab")
        return settings

    def files(self, prefix: str = "") -> list[str]:
        """The paths of all files below a folder, which ends with a slash."""
        with urllib.request.urlopen(self._files, timeout=20) as answer:
            found: list[str] = answer.read().decode().splitlines()
        return [path for path in found if path.startswith(prefix)]


@contextlib.contextmanager
def secured_hdfs(folder: Path) -> Iterator[SecuredHdfs]:
    """A cluster with a name node and a data node."""
    own = folder / "hdfs"
    program = [str(HERE / "MiniSecuredHdfs.java"), str(own), USER, str(TOKEN_S * 1000)]
    path = ":".join(map(str, [*jars("hdfs"), *jars("kdc")]))
    command = ["java", "-Xmx512m", f"-Djava.io.tmpdir={folder}", "-cp", path, *program]
    with Started(command, folder / "hdfs.log") as cluster:
        url = cluster.text(r"\nHDFS at (\S+)")
        realm, files = cluster.text(r"Kerberos at (\S+)"), cluster.text(r"Files at (\S+)")
        yield SecuredHdfs(url, realm, files, own)

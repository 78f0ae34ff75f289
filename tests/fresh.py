"""What README says, word for word, on a machine that has nothing: a bare Debian root.

python -m tests.fresh [bookworm | trixie] [compiler | sbt | odd | one-core | python=FOLDER ...]

It makes the root by debootstrap, which takes root's rights, and clones this repository into it.
Then it runs the commands of README's "Try it": the line with sudo as root, and the others as a user
without rights. Each command is shown with its time and with what came over the network meanwhile.
There is no C compiler.

What can be tried besides:

- ``compiler``: with one.
- ``sbt``: the root has sbt, and not Maven.
- ``odd``: another time zone, a narrow umask, a home folder with a space, no IPv6.
- ``one-core``: on one of this machine's cores.
- ``python=FOLDER``: a Python of this machine, such as one of pyenv, instead of Debian's.
- ``only=TEXT``: of the commands of make, those with this text in them.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USER = "newcomer"
#: Of the environment of this machine, what it needs to get at packages.
PASSED = re.compile(r"PIP_(?!FIND_LINKS)\w+|\w+_proxy|\w+_PROXY|SSL_CERT_\w+")
#: Files of this machine that say how to get at packages.
ACCESS = ("etc/resolv.conf", "etc/pip.conf", "usr/local/share/ca-certificates")
#: Debian 13 has no JDK 17.
INSTEAD = {"trixie": ("openjdk-17-jdk-headless", "openjdk-21-jdk-headless")}


def commands() -> list[str]:
    """The lines of README's "Try it"."""
    section = (ROOT / "README.md").read_text().split("\n## Try it\n")[1].split("\n## ")[0]
    lines = re.findall(r"^```bash\n(.*?)^```$", section, re.M | re.S)[0].splitlines()
    return [line.split("  #")[0].rstrip() for line in lines if line]


def lacking() -> str | None:
    """Why no root can be made here."""
    if os.geteuid() != 0:
        return "It takes root's rights to make a Debian root: sudo make fresh"
    for program in ("debootstrap", "unshare", "chroot"):
        if shutil.which(program) is None:
            return f"There is no {program}: apt install debootstrap util-linux coreutils"
    return None


def received() -> float:
    """MB that came over the network since this machine began."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    fields = (line.split(":", 1) for line in lines)
    return sum(int(rest.split()[0]) for name, rest in fields if name.strip() != "lo") / 1e6


class Machine:
    """A Debian root, in which commands run."""

    def __init__(self, folder: Path, release: str, tries: list[str]) -> None:
        self.folder = folder
        self.tries = tries
        self.release = release
        self.home = f"/home/new comer {USER}" if "odd" in tries else f"/home/{USER}"
        self.report: list[str] = []

    def make(self) -> None:
        """Debian's packages of the smallest kind, a user, and this repository to clone."""
        command = ["debootstrap", "--variant=minbase", self.release, str(self.folder)]
        self._timed(f"debootstrap {self.release}", command)
        for name in ACCESS:
            here, there = Path("/", name), self.folder / name
            if here.is_dir():
                shutil.copytree(here, there, dirs_exist_ok=True)
            elif here.exists():
                there.parent.mkdir(parents=True, exist_ok=True)
                there.unlink(missing_ok=True)
                shutil.copyfile(here, there)
        # As Debian's installer writes it.
        hosts = f"127.0.0.1 localhost\n127.0.1.1 {USER}\n"
        if "odd" not in self.tries:
            hosts += "::1 localhost ip6-localhost ip6-loopback\n"
        (self.folder / "etc/hosts").write_text(hosts)
        mirror = self.folder / "srv/keystate.git"
        subprocess.run(["git", "clone", "--quiet", "--bare", str(ROOT), str(mirror)], check=True)
        self.run("apt-get update -qq", as_root=True)
        self.run(f"useradd --create-home --home-dir {shlex.quote(self.home)} {USER}", as_root=True)
        # Git clones no repository of another user.
        self.run(f"chown -R {USER}:{USER} /srv/keystate.git", as_root=True)
        if "sbt" in self.tries:
            launcher = next((ROOT / "project/target").glob("sbt-launch-*.jar"), None)
            if launcher is None:
                sys.exit("./sbt --version gets sbt's launcher, which this try needs")
            shutil.copyfile(launcher, self.folder / "usr/local/lib/sbt-launch.jar")
            script = self.folder / "usr/local/bin/sbt"
            script.write_text('#!/bin/sh\nexec java -jar /usr/local/lib/sbt-launch.jar "$@"\n')
            script.chmod(0o755)

    def run(self, command: str, folder: str | None = None, *, as_root: bool = False) -> None:
        """Runs a command of the shell, and ends this program if it fails."""
        environment = {k: v for k, v in os.environ.items() if PASSED.fullmatch(k)}
        environment["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        environment["HOME"] = "/root" if as_root else self.home
        if as_root:
            environment["DEBIAN_FRONTEND"] = "noninteractive"
        elif "odd" in self.tries:
            environment["TZ"] = "Asia/Kathmandu"
            command = f"umask 077; {command}"
        # In namespaces of its own, so that no process and no mount outlives it.
        inside = ["chroot", *([] if as_root else [f"--userspec={USER}:{USER}"]), str(self.folder)]
        mounts = (
            f"hostname {USER} && mount -t proc proc {self.folder}/proc && "
            f"mount -t tmpfs -o mode=1777 tmpfs {self.folder}/dev/shm && "
            f"mount --rbind /sys {self.folder}/sys"
        )
        for python in self.pythons():
            place = f"{self.folder}{python}"
            mounts += f" && mkdir -p {place} && mount --bind {python} {place}"
        told = [f"{name}={value}" for name, value in environment.items()]
        words = [*inside, "/bin/sh", "-c", f"cd {shlex.quote(folder or '/')} && {command}"]
        whole = f"{mounts} && exec env -i {shlex.join([*told, *words])}"
        cores = ["taskset", "--cpu-list", "0"] if "one-core" in self.tries else []
        spaces = [*cores, "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
        self._timed(command, [*spaces, "sh", "-c", whole])

    def pythons(self) -> list[str]:
        """The folders of this machine's Pythons that it has too."""
        return [value[7:] for value in self.tries if value.startswith("python=")]

    def _timed(self, what: str, command: list[str]) -> None:
        print(f"\n$ {what}", flush=True)
        began, before = time.monotonic(), received()
        status = subprocess.run(command, stdin=subprocess.DEVNULL).returncode
        seconds, megabytes = time.monotonic() - began, received() - before
        word = "ok" if status == 0 else f"failed with {status}"
        self.report.append(f"{seconds / 60:6.1f} min  {megabytes:6.0f} MB  {word:7}  {what}")
        if status != 0:
            self.tell()
            sys.exit(1)

    def tell(self) -> None:
        """Prints what was done."""
        print("\n" + "\n".join(self.report), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fresh", description=__doc__)
    parser.add_argument("release", nargs="?", default="bookworm", choices=["bookworm", "trixie"])
    parser.add_argument("tries", nargs="*")
    parser.add_argument("--keep", action="store_true", help="leave the root where it is")
    given = parser.parse_args()
    why = lacking()
    if why is not None:
        sys.exit(why)
    only = [value[5:] for value in given.tries if value.startswith("only=")]
    folder = Path(tempfile.mkdtemp(prefix="keystate-fresh-", dir=os.environ.get("FRESH_FOLDER")))
    folder.chmod(0o755)
    machine = Machine(folder, given.release, given.tries)
    try:
        machine.make()
        inside = machine.home
        for command in commands():
            command = command.replace("REPOSITORY", "/srv/keystate.git")
            if command.startswith("sudo "):
                command = command.replace(*INSTEAD.get(given.release, ("", "")))
                if "sbt" in given.tries:
                    command = command.replace(" maven ", " ")
                if "compiler" in given.tries:
                    command += " gcc python3-dev"
                machine.run(command[5:].replace("apt ", "apt-get -qq --yes ", 1), as_root=True)
            elif command.startswith("git clone"):
                clone, change = command.split(" && cd ")
                machine.run(clone, inside)
                inside = f"{inside}/{change}"
            elif not only or any(text in command for text in only):
                for python in machine.pythons():
                    command += f" PYTHON={python}/bin/python3"
                machine.run(command, inside)
        machine.tell()
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

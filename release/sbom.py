"""The software bill of materials: CycloneDX, in JSON.

The package and its jars have nothing of other projects in them. So the bill names the jars, what
the package asks pip for, and what the jars expect of Spark, each in the version that is tested.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from release.dist import Release, checksum

_FORMAT = "1.6"
_LICENSE = [{"license": {"id": "Apache-2.0"}}]


def write(release: Release) -> None:
    """Writes it; equal files give an equal bill, but for its time."""
    jars = [_jar(release, line) for line in release.sparks]
    sparks = [_spark(version) for version in release.sparks.values()]
    pypi = [
        _component("pyspark", next(iter(release.sparks.values())), "pypi"),
        *(_component(name, release.versions[name], "pypi") for name in ("pyarrow", "numpy")),
    ]
    package = _component("keystate", release.version, "pypi")
    package |= {"licenses": _LICENSE, "hashes": [_hash(checksum(release.wheel, "sha256"))]}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": _FORMAT,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(jars))}",
        "version": 1,
        "metadata": {"timestamp": _time(), "component": package},
        "components": [*jars, *pypi, *sparks],
        "dependencies": [
            {
                "ref": package["bom-ref"],
                "dependsOn": [component["bom-ref"] for component in [*jars, *pypi]],
            },
            *(
                {"ref": jar["bom-ref"], "dependsOn": [spark["bom-ref"]]}
                for jar, spark in zip(jars, sparks, strict=True)
            ),
        ],
    }
    release.sbom.write_text(json.dumps(bill, indent=2) + "\n")


def problems(release: Release) -> Iterator[str]:
    """What is missing or wrong."""
    name = release.sbom.name
    if not release.sbom.exists():
        yield f"{name} is missing: python -m release sbom"
        return
    text = release.sbom.read_text()
    bill = json.loads(text)
    hashes = {
        component["name"]: component["hashes"][0]["content"]
        for component in bill["components"]
        if "hashes" in component
    }
    for line in release.sparks:
        jar = release.maven_files(line)[1]
        if jar.exists() and hashes.get(release.artifact(line)) != checksum(jar, "sha256"):
            yield f"{name} does not have {jar.name} as it is"
    if bill["metadata"]["component"].get("version") != release.version:
        yield f"{name} is of another version"
    yield from _invalid(name, text)


def _invalid(name: str, text: str) -> Iterator[str]:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        yield f"{name} is not as CycloneDX {_FORMAT} wants it: {error}"


def _jar(release: Release, line: str) -> dict[str, Any]:
    jar = _component(release.artifact(line), release.version, "maven", "keystate")
    hashes = [_hash(checksum(release.maven_files(line)[1], "sha256"))]
    return jar | {"licenses": _LICENSE, "hashes": hashes}


def _spark(version: str) -> dict[str, Any]:
    # Whoever has Spark has it: the jar does not bring it.
    return _component("spark-sql_2.13", version, "maven", "org.apache.spark") | {
        "scope": "excluded"
    }


def _component(name: str, version: str, kind: str, group: str = "") -> dict[str, Any]:
    purl = f"pkg:{kind}/{group + '/' if group else ''}{name}@{version}"
    made = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return {**made, "group": group} if group else made


def _hash(content: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": content}


def _time() -> str:
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.now(timezone.utc)
    time = datetime.fromtimestamp(int(seconds), timezone.utc) if seconds else now
    return time.isoformat(timespec="seconds")

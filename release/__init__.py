"""What a release consists of, and whether it is all there: ``make release-check``.

::

    python -m release check [TAG]    fails on what a release needs and dist/ lacks
    python -m release sbom           writes dist/keystate-VERSION.cdx.json
    python -m release bundle         writes checksums and dist/keystate-VERSION-maven.zip
    python -m release unsigned       prints the files without a signature

All but the first need only Python.
"""

"""JSON by Spark's ``to_json`` that differs for different rows."""

#: By default times have no more than their milliseconds, and what is null is left out.
EXACT_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}

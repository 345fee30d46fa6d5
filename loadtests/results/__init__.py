"""`python -m loadtests.results`: the report, from the files that the measurements left."""

"""NumPy's own tests, which ship in NumPy's wheel, with jmars in NumPy's place.

- upstream.py: compiles a test module of NumPy's as a cell of jmars
- names.py: the names that such a module imports from NumPy
- halves.py: an engine in this process, and arrays that are cut in two along each axis
- lists.py: reads `failing.txt` and `excluded.txt`
- with `--cluster N` the tests compute on a cluster of N workers: `pytest tests/conformance --cluster 2` runs the sample
- __main__.py: runs the tests and rewrites `failing.txt`, from which it only takes names
- test_*.py: one for each test module of NumPy's
"""

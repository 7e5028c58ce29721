"""Random numbers: `np.random`.

In reading order:

- distributions.py: parameters of the distributions
- cells.py: boxes of an array with separate random streams
- streams.py: states of bit generators as data
- doubles.py: uniform doubles by position in a sequence
- draws.py: operands that draw chunks
- tensor_parameters.py: draws with tensors as parameters
- permutation.py: permutations computed position by position
- generator.py: `np.random.Generator`
- numpy_random.py: the functions of `np.random`
"""

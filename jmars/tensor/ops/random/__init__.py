"""Random numbers: `np.random`.

In reading order:

- distributions.py: parameters of the distributions
- cells.py: boxes of an array, each drawn from its own stream
- streams.py: states of bit generators as data
- doubles.py: uniform doubles by their position in one sequence
- draws.py: operands that draw chunks
- tensor_parameters.py: draws whose parameters are tensors
- permutation.py: permutations computed position by position
- generator.py: `np.random.Generator`
- numpy_random.py: the functions of `np.random`
"""

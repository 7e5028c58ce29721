"""Linear algebra.

In reading order:

- contraction.py: sums of products along labelled axes
- core_axes.py: the keywords `axes=`, `axis=` and `keepdims=` of ufuncs of vectors and matrices
- matrix_products.py: `matmul`, `dot`, `einsum`, `kron`
- blocked_cholesky.py: Cholesky factors of large matrices, tile by tile
- matrix_blocks.py: functions of `np.linalg` on a block, by NumPy or CuPy
- decompositions.py: `qr`, `svd`, `inv`, `solve`
- norms.py: norms, ranks, condition numbers, eigenvalues
- tensor_equations.py: `tensorinv` and `tensorsolve`
"""

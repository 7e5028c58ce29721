"""Functions mapped over chunks.

In reading order:

- blockwise.py: functions of chunks at the same grid position
- map_blocks.py: `map_blocks`
- single_chunk.py: functions along axes that lie in a single chunk
- overlap.py: chunks with borders from their neighbours
- first_elements.py: learns what a user's function gives, from the first elements
- gufuncs.py: `apply_gufunc` and `vectorize`
- apply.py: `apply_along_axis`, `map_overlap`, `sliding_window_view`
- sliding_windows.py: windows as views of chunks
"""

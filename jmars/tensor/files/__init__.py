"""Arrays in files of several formats; the workers read and write the chunks.

In reading order:

- aligned.py: chunk sizes that follow the pieces of a file
- to_blocks.py: calls a function with every chunk, on the workers
- raw.py: plain bytes, `fromfile` and `x.tofile`
- npz.py: .npz archives
- text.py: `np.savetxt`
- zarr.py: Zarr, versions 2 and 3
- hdf5.py: datasets of HDF5 files
- images.py: stacks of images, and GeoTIFF
"""

from jmars.tensor.files import aligned, hdf5, images, npz, raw, text, to_blocks, zarr

__all__ = ["aligned", "hdf5", "images", "npz", "raw", "text", "to_blocks", "zarr"]

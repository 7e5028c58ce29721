"""Arrays in files of other formats: read and written chunk by chunk, where the chunks are.

In reading order:

- aligned.py: cuts that follow how a file is cut
- to_blocks.py: each chunk handed to a function, where it lies
- raw.py: plain bytes, `fromfile` and `x.tofile`
- npz.py: archives of .npy files
- text.py: `np.savetxt`
- zarr.py: Zarr, versions 2 and 3
- hdf5.py: datasets of HDF5 files
- images.py: stacks of images, and GeoTIFF
"""

from jmars.tensor.files import aligned, hdf5, images, npz, raw, text, to_blocks, zarr

__all__ = ["aligned", "hdf5", "images", "npz", "raw", "text", "to_blocks", "zarr"]

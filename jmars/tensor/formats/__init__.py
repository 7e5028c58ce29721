"""Formats of images, telescopes, weather and tables: each reads by `from_blocks`, and the workers write.

A format's library belongs to an extra and is imported where a file of the format is read or written.

- common.py: libraries of extras; errors that name the file; pyramids
- tiff.py: TIFF and OME-TIFF files, by tifffile
- rasters.py: GeoTIFF and other rasters, by rasterio
- zarr_groups.py: Zarr groups with attributes and consolidated metadata
- ome_zarr.py: OME-Zarr images, pyramids of Zarr arrays
- fits.py: FITS images and cubes, by astropy
- netcdf.py: variables of NetCDF 4 files, by h5netcdf
- grib.py: fields of GRIB files, by cfgrib
- parquet.py: columns of Parquet files and Arrow tables, by pyarrow
"""

from jmars.tensor.formats import fits, grib, netcdf, ome_zarr, parquet, rasters, tiff, zarr_groups

__all__ = ["fits", "grib", "netcdf", "ome_zarr", "parquet", "rasters", "tiff", "zarr_groups"]

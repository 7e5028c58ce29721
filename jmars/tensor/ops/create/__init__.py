"""Creation of arrays.

In reading order:

- like_argument.py: the argument `like=`
- constants.py: `ones`, `zeros`, `full`
- ranges.py: `arange`, `linspace`, `eye`, `meshgrid`
- on_device.py: `x.to_gpu()`, `x.to_cpu()`, values on a GPU of the client, arrays of CuPy for functions of users
- convert.py: `asarray`, `array`, `from_dlpack`
- datetimes.py: ranges of datetimes, business days
"""

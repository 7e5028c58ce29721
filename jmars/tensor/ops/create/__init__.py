"""Creation of arrays.

In reading order:

- like_argument.py: the argument `like=`
- constants.py: `ones`, `zeros`, `full`
- ranges.py: `arange`, `linspace`, `eye`, `meshgrid`
- convert.py: `asarray`, `array`, `from_dlpack`
- datetimes.py: ranges of datetimes, business days
"""

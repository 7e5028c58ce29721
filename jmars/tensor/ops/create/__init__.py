"""Creation of arrays.

In reading order:

- constants.py: `ones`, `zeros`, `full`
- ranges.py: `arange`, `linspace`, `eye`, `meshgrid`
- convert.py: `asarray`, `array`, `from_dlpack`
- datetimes.py: ranges of datetimes, business days
"""

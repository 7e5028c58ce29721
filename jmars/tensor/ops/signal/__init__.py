"""Signals: Fourier transforms, convolution, interpolation, windows, polynomials.

In reading order:

- fft.py: `np.fft`
- convolution.py: `convolve` and `correlate`
- calculus.py: `interp`, `gradient`, `trapezoid`, `unwrap`
- windows.py: window functions, `sinc`, `i0`
- polynomials.py: `vander`, `polyval`, `polyfit`, `poly1d`
"""

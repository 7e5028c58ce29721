"""Signals: Fourier transforms, convolution, interpolation, windows, polynomials.

In reading order:

- fft.py: `np.fft`
- signals.py: convolution, interpolation, gradients, windows
- polynomials.py: `vander`, `polyval`, `polyfit`
"""

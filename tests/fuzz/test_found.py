"""Statements that the fuzzer once found to differ from NumPy, in few letters; a line for each, by the kind of array."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cases import numpy_before
from tests.fuzz.comparing import Tally, Tried
from tests.fuzz.values import Made, inf, nan
from tests.tensor.engine import OneByOne

FOUND = """
record = np.array((1, 2.0), 'i4,f8')
    record[:1] | record[0] | record[()][0] | record[()][:1] | len(record) | list(record) | np.count_nonzero(record)
records = np.array([(0, 0.0), (2, -1.0), (0, nan)], 'i4,f8')
    np.unique(records[::-1], return_index=True) | np.unique(np.concatenate([records, records]), return_index=True)
    records[1][0] | len(records[1]) | list(records[1]) | [one[1] for one in records] | records[1][:1]
    records[1][0] = 7 | records[1][1] = 7 | records[1]['f0'] = 7 | np.nonzero(records) | np.flatnonzero(records)
    np.equal(records, records) | records == records | np.array_equal(records, records) | np.count_nonzero(records)
    np.trim_zeros(records) | np.where(records) | np.argwhere(records)
table = np.arange(6.0).reshape(2, 3)
    np.array(table[None], dtype='i4', ndmax=2) | np.array(table[None], ndmax=2) | np.hstack(table, casting='x')
    np.linalg.vector_norm(table, keepdims=()) | np.linalg.vector_norm(table, keepdims=1.5)
    np.round(table, out=(table,)) | np.round(0.5, out=table) | np.round(table[:1], out=np.zeros(3))
    np.linalg.multi_dot([table[None], table.T, table]) | np.matvec(np.zeros((1, 0, 2)), np.zeros((0, 2)))
    np.linalg.norm(table[:, :0], ord=1) | np.clip(table > 2, 1, table.astype('i4'))
    np.clip(table.astype('f4'), 1, table) | np.cov(table, aweights=[1.0, 0.5, 2.0], dtype='f4')
    np.amin(table[:0], initial=2.5, where=[True, False]) | np.asarray_chkfinite(table, order='x')
    np.array_equal(table, 'x', equal_nan=True) | np.einsum('ii', table[:1])
    np.fft.irfftn(table[:, :2], out=(table[:, :2],)) | np.fft.rfft(table, out=np.zeros(3))
    np.array_equal(table[:0] > 1, table[:0].astype(str)) | np.linalg.qr(np.zeros((4, 3, 0)))
    np.linalg.qr(table[:, :0]) | np.linalg.cross(table, table, axis=(0,))
    np.linalg.lstsq(table.astype('f4'), table > 1)[0] | np.linspace(table.astype('>f8'), 2, 3)
    np.linspace(table.astype('>f8'), table, 3) | np.histogram(table, weights=table.astype('>i4'))
    np.histogram_bin_edges(table, 'auto', weights=table) | np.histogram2d(table[0], table[1], bins='auto')
    np.histogram(table[:0, 0], bins=table[:0, 0]) | np.tensordot(table.astype('f4'), 2, 0)
    np.einsum('ij->i', table.astype('m8[s]')) | np.einsum('ij->ji', table.astype('m8[s]'))
    np.concatenate([table], casting=1.5) | np.inner(table.astype('i4,i4'), 2) | np.isneginf(table, out=(table,))
    np.prod(table[:0], initial=None) | np.sum(table, initial=None, where=table > 1) | np.max(table, keepdims=None)
    np.ptp(table, keepdims=None) | np.histogram(table * 0.5, 'auto')
    np.histogram(np.array([0.0] * 98 + [1.0, 2.0]), 'auto') | np.linalg.svd(table[:, :2], hermitian=True)[1]
    np.trapezoid(table[0], x=table[:1]) | np.linalg.vector_norm(table, ord=None)
    np.putmask(table.ravel(), table > 1, 2) | np.repeat(table[:0], -1) | np.tile(table, (-1, 2))
    np.tile(table[:0], -1) | np.split([], 1) | np.hsplit([1, 2, 3], [1]) | np.rollaxis([1, 2], 0)
    table.sort(axis=None) | table.reshape(None) | np.sin(table, out='x') | np.histogram_bin_edges(table, bins=table)
    np.array(table, ndmax=2) | np.shares_memory(table, table, max_work=1.5) | table.var(mean=[2.0])
    table.std(correction=1) | table.mean(where=table > 1) | np.extract([True, False], table)
    np.extract([0, 0, 0, 0, 1, 1, 0, 0], table) | np.extract([0] * 6 + [1], table)
    np.compress([0, 1, 0], table, axis=0) | np.compress([0, 0, 1], table, axis=0) | np.place(table.T, table > 1, 9)
    np.place(table, [1, 0] * 3, [5, 6]) | np.sum(table, where=None) | np.mean(table, where=None) | table.sum(where=None)
    np.nanvar(table, where=None) | np.prod(table, where=None) | np.any(table, where=None) | np.all(table, where=None)
    np.nansum(table, where=None) | np.add.reduce(table, where=None) | np.add(table, 1, out=table, where=None)
    np.nanmedian(table, out=np.zeros(3)) | np.median(table, out=np.zeros(3)) | np.percentile(table, 50, out=table)
    np.nanquantile(table, 0.5, axis=0, out=np.zeros((2, 3))) | np.full((3,), table[:1][None])
    np.where(table, x=1, y=2) | np.clip(table, a_min=1) | np.clip(table, None, 3) | np.clip(table, min=2)
    np.clip(table, 1, 2, min=3) | np.unstack(table, axis=(0,)) | np.tile(table, -1) | np.can_cast(table, table)
    np.linalg.vector_norm(table[:0], ord=inf) | np.histogram_bin_edges(table, weights=[1, 2]) | np.histogramdd(table)
    np.histogramdd(table[None]) | np.histogram2d(table, table) | np.take_along_axis(table, [[0], [1]], axis=1)
    np.linalg.cond(table[:, :2] * 0) | np.linalg.pinv(np.zeros((2, 0), 'i1')) | table.swapaxes(axis1=0, axis2=1)
    np.put(table[:0], [0, 0], table) | np.linspace(table, 9, axis=(0,)) | np.matmul(table, [[1]])
    table[True, 0] = 5 | table[:, True, 0] = 7 | table[False, 0] = 5 | table[True, [0, 1], [1, 0]] = [8, 9]
    table[..., True, 1] += 1 | table[(True,) * 65] | table[(None,) * 63]
    np.pad(table, 0, 'minimum', stat_length=0) | np.pad(table, 1, 'maximum', stat_length=(1, 0))
    np.arange(0, 1, nan) | np.arange(0, inf) | np.einsum('aa', table) | np.linalg.matrix_transpose(table[0])
    np.histogram2d(table[0], table[0, :2]) | np.reshape(table, (3, 2), 'F', copy=False) | np.unravel_index([], (2, 3))
    np.ravel_multi_index(([], []), (2, 3)) | np.unique(table, axis=1.5) | np.add(table) | np.asarray(table, device='x')
line = np.array([3, 1, 1, 2])
    np.vecdot(line, line, axis=None) | np.linspace(3, np.array(3.0, '>f2'), 4)
    np.histogram_bin_edges([1.0, 2.0], bins=line) | np.intersect1d(line, [1.0, 2.5])
    np.intersect1d(line, line.astype(str)) | np.indices((2, 2), dtype=None, sparse=True)
    np.add.at(line, line[:0] * 0.5, 1) | np.add.at(line, [], 1) | np.dot(line, line[0] > 1, out=np.zeros(4))
    np.dot(line, 2.5, out=np.zeros(4, 'f4')) | np.array_equal(line[None], line)
    np.array_equal(line.astype(str)[None], line.astype(str)) | np.vecdot(line, np.arange(20).reshape(4, 5), axis=0)
    np.linalg.vecdot(np.arange(24).reshape(2, 4, 3), line[:, None], axis=-2) | np.take(line, 1.5)
    np.take(line, np.array(1.5)) | np.ravel_multi_index(line[:0], (2, 3)) | np.linalg.norm(line, axis=0.5)
    np.vander(line, N=1.5) | np.array(line[:2], ndmax=0) | np.concatenate([line.astype('u1'), 300], axis=None)
    np.union1d(line.astype('u1'), 300) | np.choose(line.astype('u2') % 2, (line.astype('u2'), 2))
    np.power(line, -line, out=line, where=line > 9) | np.power(line, -1, dtype='f4') | line.__imatmul__(line)
    np.array(line, ndmin=4, ndmax=0) | np.indices([2, 2], dtype=None) | np.ravel_multi_index(line[:0], ())
    np.unravel_index(line > 1, (4, 1)) | np.unravel_index([1, 0, -1], ()) | np.unravel_index(0, ()) | np.lexsort(line)
    np.lexsort((line, line)) | np.unique(line, axis=(0, 1)) | np.intersect1d(line, line, True)
    np.intersect1d(line, [1, 2, 2], True, True) | np.histogramdd(line) | np.histogramdd([]) | np.histogramdd([1, 2, 3])
    line.view(None) | line.view('i4') | line.sort(kind='bad') | line.partition(9) | line.partition(1, kind='bad')
    np.argpartition(line, (0, 7)) | np.kron(line.astype('m8[s]'), line) | np.inner(line.astype('m8[s]'), 1.5)
    np.diagflat(line, k=1.5) | np.indices((2, -1), sparse=True) | np.indices((), dtype='M8[D]')
    np.require(line, like=None) | np.insert(line, line > 1, 1) | np.cov(line, aweights=1.5)
    np.linspace(1, 1j, num=3, axis=(0,)) | np.array_equiv(line.astype('M8[s]'), line) | np.copyto(line, 5, where=line)
    np.copyto(line, 5, where=[1, 0, 1, 0]) | np.copyto(line, 5, casting=None) | np.copyto(line, 5, where=np.int8(1))
    np.add(line, 1, casting=None) | np.modf(line, out=None) | np.modf(line, None, None) | np.fft.fftfreq(-1)
    np.bartlett(1.5) | np.kaiser(3.5, 8.6) | np.hanning(2.5) | np.blackman(np.float32(4.2))
    np.linalg.tensorsolve(line[:1, None], 1)
    line.dot([]) | np.dot(line[0], ()) | np.dot(True, []) | np.inner(np.float32(2), []) | np.dot(line[:0], ())
    np.vdot(np.zeros(0, 'f4'), []) | np.dot([], []) | np.array(3, copy='x') | np.array(line, copy='x')
    np.asarray(line, copy='x') | np.nan_to_num(line, copy='x') | np.reshape(line, (4,), copy='x')
    np.from_dlpack(line, copy='x') | np.rollaxis(line, 0, start=0.0) | np.rollaxis(line[None], 0, start=0.5)
    np.put(line[0] > 1, [0], 5) | np.put(line[0], [0], 5) | np.repeat(line, 1.5) | np.repeat(line, [0.5, 1, 1, 2])
    np.put(line, 1.5, 9) | np.put(line, [1.5], 9) | np.put(line, line * 0.5, 9) | np.repeat(line, line * 0.5)
    np.logical_or.reduceat(line, line[:0] * 0.5) | np.add.reduceat(line, [1.5]) | np.add.reduceat(line, line > 9)
    line[0] = np.array(nan) | line[:1] = np.array(nan) | line[0] = (line * nan)[:1].reshape(())
    line[:1] = np.ma.masked
    line[0] *= nan | line[0] = line[0] * nan | line[0] /= 0.3 | line[:2] *= 1.5 | line[[0, 1]] = line[0] * 0.5
    np.add.at(line.astype('i1'), slice(1), 300) | np.add.at(line, slice(1), line[:1][None]) | line.flat[[0, 99]] = []
    line.flat[[0, 99]] = line[:0] | line.flat[0] = line[:0] | np.copyto(line, line, casting='x')
    np.lib.stride_tricks.sliding_window_view(line, 1.5) | np.count_nonzero(line, keepdims=None)
    np.polyfit(line, line, 1.5) | np.var(line, correction=None) | np.nanstd(line, correction=None)
    np.linspace(line * -0.5, line * -0.5, 3, dtype='m8[s]') | line[:0].repeat(-1)
    f"{line:30}" | f"{line[0]:5}" | f"{line}" | np.arange(stop=3) | np.arange(start=4)
    np.arange(start=1, stop=4) | np.arange(3, start=1) | np.arange(step=3)
    line.dot(b=line) | (line % 3).choose(line, line + 1, line + 2) | (line % 3).choose(choices=[line, 1, 2])
    line.conj(line) | (line * 1j).conjugate(line * 1j) | np.dot([], 3) | np.dot([], line) | np.dot([], np.float32(2))
words = np.array(['a', 'b', 'c'])
    np.pad(words, 0, mode='mean')
    np.array_equal(words, words, equal_nan=True) | np.array_equal(words, words[::-1], equal_nan=True)
    np.quantile(words, 0) | words.reshape(3, 1)[0, 0].tobytes() | words.reshape(3, 1)[0].tobytes()
    np.add.at(words, [0], 1) | np.equal(words, words, out=np.zeros(3)) | np.equal(words, words, dtype=str)
    np.equal(words, 3) | (words == 3) | np.equal(words, words, where=[True, False, True], out=np.zeros(3))
    np.not_equal(words, words, out=words) | (words != 3) | words == 'b' | words == b'b' | np.array_equiv(words, 3)
number = np.array(3)
    np.arange(1, 5, dtype='M8[D]') | np.arange(-1, -1, dtype='M8[D]') | np.arange(5, dtype='M8[D]')
    np.arange(5, dtype='m8[s]') | np.array_split([], 1.5) | np.dot(number, number, out=(number,))
    [np.dot(number, number, out=number), number.fill(7)] | np.arange(number - 5.5, dtype='m8[s]')
    np.array(number, ndmax=None) | np.astype(number, 'f8', device=1.5) | np.astype(number, 'f4') | np.astype(1, 'f4')
    np.astype([1], 'f4') | np.logical_or.reduce(number, number - 3) | np.tri(2, M=1.5) | np.from_dlpack(number > 1)
    number.repeat([2], axis=-1) | number.take([0, 0], axis=-1) | number.compress([True], axis=0)
    np.add.at(number, number > 9, 5) | np.add.at(number, number > 1, 5) | number[number > 1] += 1
    number[number > 9] += 1 | number[number > 9] = [] | np.packbits(number.astype('u1'), axis=0) | np.tri(3, M=-1)
    np.histogramdd(2) | np.flip(number.astype('>i2')) | np.round(number.astype('>i2')) | np.fft.fftshift(number)
    np.roll(number, 1) | np.roll(number, 1, axis=()) | np.linalg.tensorinv(number) | np.clip(nan, max=np.complex64(3))
    np.imag('x') | np.imag(True) | np.real(True) | np.real(3) | np.imag(['a', 'b'])
    np.linalg.vector_norm(number, axis=0) | np.histogramdd(number) | np.insert(3, number > 1, 1) | np.hsplit(number, 3)
    np.sort_complex(np.zeros((0, 2), 'S3')) | np.unstack(number)
matrix = np.eye(3) * 2
    np.linalg.matrix_power(matrix.astype('f2'), 2) | np.linalg.matrix_power(matrix.astype('M8[D]'), 1)
    np.linalg.matrix_power(matrix.astype('S3'), 0) | np.linalg.matrix_power(matrix, -2)
    np.linalg.matrix_power(matrix, 1.5)
    np.linalg.cond([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]], p=1) | np.linalg.cond(matrix * 0, 'fro')
    np.linalg.cond(matrix, -inf) | np.linalg.cond(matrix[:2], 1) | np.outer(matrix, matrix, out=(np.zeros((9, 9)),))
    np.matvec(matrix, matrix, out=np.zeros((3, 1))) | np.matvec(matrix[:1], matrix, out=matrix)
    np.matmul(matrix, matrix, out=(matrix,)) | np.vecmat(matrix[0], matrix, out=np.zeros((1, 3)))
    np.linalg.qr(matrix, mode='raw') | np.linalg.qr(matrix[None, :2], 'raw') | np.linalg.qr(matrix[:, :0])
    np.linalg.pinv(matrix > 1, rtol=None) | np.linalg.pinv(matrix, rcond=[0.1, 0.2]) | np.linalg.pinv(matrix, rtol=())
turned = np.array([3, 7, 3, 70000, 1], '>i4')[::-1]
    np.isin(turned, turned) | np.setdiff1d(turned, turned) | np.setdiff1d(turned, turned[:2]) | np.isin(turned, [3, 1])
    np.setdiff1d(turned * 0.5, (turned * 0.5).astype('>f8')) | np.isin(turned.astype('>U5'), turned.astype('>U5'))
    np.isfortran(turned) | turned[0] | turned.flat[0].dtype | np.unstack(turned) | np.around(turned)
    np.can_cast(turned, turned[0] > 1) | np.put(turned, np.zeros(0, 'S3'), 1) | turned.real = nan | turned.real = 1j
    turned.real = [1, 2, 3] | np.add.at(turned, [], 1j) | np.lexsort(turned, axis=()) | np.arange(-1, -1, dtype='u1')
    np.histogram_bin_edges(turned, bins=turned[0])
    np.quantile(turned[None], 1, axis=0) | np.percentile(turned[None], 50, axis=0, method='lower')
    np.median(turned[None], axis=0) | np.quantile(turned, 1)
gaps = np.array([[nan, 1.0], [nan, 2.0], [nan, 1.0]])
    np.unique_all(gaps) | np.unique_all(gaps.T) | np.unique(gaps[::-1], return_index=True, equal_nan=False)
    np.nanmax(nan, initial=2.5) | np.nanmax([nan, nan], initial=2.5) | np.nanmin([[nan], [1.0]], axis=1, initial=0)
    np.nanmax(gaps[:, 0], initial=2.5) | np.nanmin([nan, 3.0], initial=1, where=[True, False]) | np.dot(gaps, 0.0)
    np.inner(0, gaps) | np.dot(1j * 0, gaps) | np.dot(gaps, 2) | np.dot(0.0, 1.5)
    np.dot(gaps, 0, out=np.zeros((3, 2)))
times = np.array(['NaT', 1, 'NaT', 2], 'm8[ns]')
    np.arange(times[1], times[3]) | np.arange(times[1]) | np.unique(times, equal_nan=False) | np.unique_all(times)
    np.array_equal(times, times, equal_nan=True) | np.array_equal(times, times) | np.sort_complex(times)
    np.array(times, ndmin=1.5)
flags = np.array([True, False, True, True])
    np.std(flags, mean=flags * 1j) | np.var(flags, mean=0.5j) | np.nanvar(flags, ddof=0.5, mean=flags * (1 + 1j))
    np.isin(flags, np.arange(20).astype('M8[s]')) | np.isin(flags, np.arange(3).astype('M8[s]'))
    np.isin(flags, np.arange(20).astype('m8[s]')) | np.isin(flags, np.arange(20).astype('M8[s]'), kind='table')
    np.putmask(flags[0], False, []) | np.busday_offset(flags[1], -3) | np.is_busday(flags[1])
    np.is_busday(flags[1], out=flags[:1].astype('f2')) | np.busday_offset(flags, 1)
    np.fft.fft2(flags.reshape(2, 2), out=np.zeros((2, 2), 'S3')) | np.fft.fft(flags, out=np.zeros(4, 'S3'))
numbers = np.array([3, -1, 7, 8, 0, 2])
    np.floor_divide(numbers, 1j, dtype='i4', casting='unsafe') | np.add(numbers, 1.9, dtype='i4', casting='unsafe')
    np.add(numbers, 300, dtype='i1', casting='unsafe') | np.add(numbers.astype('f4'), 1j, dtype='f4', casting='unsafe')
    np.linalg.norm(numbers, ord=-1, axis=-1, keepdims=None) | np.linalg.norm(numbers, keepdims=None)
    np.linalg.norm(numbers, axis=0, ord='x') | np.linalg.pinv(numbers.reshape(2, 3)[:0], rcond=0, rtol=None)
    np.linalg.multi_dot([numbers.astype('f4')[:0], []]) | np.linalg.multi_dot([np.zeros((2, 0), 'f4'), []])
    np.matmul(numbers, numbers, out=np.zeros(()), casting='equiv') | np.nanmin([1.5, 2], out=np.array('b'), initial=1)
    np.matvec(np.eye(3), numbers[None, :3], out=np.zeros(3)) | np.vecdot(numbers, numbers[None], out=np.zeros(()))
    np.matmul(np.eye(2), np.eye(2)[None, None], out=np.zeros((2, 2))) | np.kaiser(1, None) | np.kaiser(1, 1j)
    np.round(numbers[:1], out=np.zeros(())) | np.round(numbers[:1] * 0.5, out=np.zeros(()))
    np.round(numbers, -1, out=numbers) | np.round(numbers, -1, out=numbers * 0.5) | np.diff([[1.5], [2.0]], n=0)
    np.lib.stride_tricks.sliding_window_view(-1, ()) | np.lib.stride_tricks.sliding_window_view(numbers, (), ())
    np.from_dlpack(numbers, device=()) | np.isin(1j, np.arange(20).astype('M8[ns]')) | np.isin(numbers, ['3', '7'])
    np.isin(numbers, [str(k) for k in range(40)]) | np.setdiff1d(numbers, [str(k) for k in range(40)])
    np.setdiff1d(numbers, ['3']) | np.setdiff1d(numbers, None) | np.isin(numbers, None) | np.isin(numbers[:2], numbers)
    np.correlate(numbers * 0.5, numbers.astype('m8[s]'), 'full') | np.convolve([[1.5, 2.0], [0.0, 1.0]], numbers)
    np.quantile(numbers, [[0.1], [0.9]], method='inverted_cdf', weights=numbers ** 2, out=np.zeros((2, 6), int))
    np.linspace(numbers.astype('>f2'), numbers.astype('>f2')[:1], 3) | np.linspace(numbers.astype('>f2'), 3, 3)
    numbers[np.zeros(0, bool)] | numbers[np.zeros(0, bool)] = 7 | np.add.at(numbers, numbers[:0] > 1, 5)
    numbers.reshape(2, 3)[np.zeros((2, 0), bool)] | numbers.reshape(2, 3)[..., np.zeros(0, bool)]
    np.is_busday([]) | numbers.reshape(2, 3)[np.zeros((1, 0), bool)] | numbers[np.zeros(0, bool)] = [1, 2]
    np.busday_count(numbers.astype('M8[D]'), 9, out=numbers) | np.is_busday(numbers.astype('M8[D]'), out=numbers > 1)
    np.nansum(300, out=numbers[0].astype('M8[D]')[()]) | np.take(numbers.reshape(2, 3)[:0], 9, axis=-1)
    numbers.reshape(2, 3)[:0].take([9, 1], axis=1) | numbers.reshape(2, 3)[:0].take(9, axis=0)
    np.arange(None, stop=-1) | np.arange(None, 3) | np.arange(3, None)
    np.insert(np.zeros((4, 4, 0)), [], np.zeros((4, 4, 0))) | np.is_busday(numbers.astype('M8[D]'), out=None)
    np.triu(numbers, k=1.5) | np.tril(numbers.reshape(2, 3), k=0.5) | np.tril(numbers, -1.5) | np.tri(3, 4, 0.5)
    np.nanmedian(numbers[:0], keepdims=None) | np.nanquantile(numbers[:0] * 0.5, 0.5, keepdims=None)
    np.nanstd((numbers * 0.5)[:, None], mean=numbers) | np.nanvar(numbers * 0.5, mean=numbers[:1])
    np.unique(numbers, sorted=()) | np.insert(np.zeros((5, 0, 5)), [], np.zeros((5, 0, 5))) | np.insert(numbers, [], [])
    np.linalg.matrix_norm(numbers.reshape(2, 3), keepdims='x') | np.linalg.multi_dot((numbers, numbers, numbers[None]))
    np.polyint(numbers, m=np.array(1j)) | float(np.array(1j)) | int(np.array(1j)) | complex(np.array(1j))
    np.busday_offset(numbers.astype('M8[D]'), -3, roll='forward', out=(numbers.astype('M8[D]'),))
record0 = np.array((1, 2.0), 'i4,f8')
    record0.fill(np.array([(5, 7.0)], 'i4,f8')) | record0.fill(np.array([(5, 7.0), (1, 1)], 'i4,f8'))
signs = np.array([-0.0, -0.0, -0.0])
    np.signbit(np.sum(signs, initial=-0.0)) | np.signbit(np.sum(signs[:0], initial=-0.0)) | np.signbit(np.sum(signs))
    np.signbit(np.nansum(signs, initial=-0.0)) | np.signbit(np.sum(signs.astype('f2'), initial=-0.0))
    np.signbit(np.sum(signs, initial=-0.0, where=[True, False, True])) | np.signbit(np.add.reduce(signs, initial=None))
    np.signbit(np.sum(signs, initial=-0.0, where=False)) | np.signbit(np.sum([0, 0], initial=-0.0, dtype='f8'))
    np.signbit(np.cumsum(signs)) | np.signbit(np.sum(signs * [-1, 1, 1], initial=-0.0))
large = np.array([1e200, 1e200, 1e-300, 0.0, 2.0, 1e-200, 1e-200, 1e300])
    np.cumprod(large) | np.cumprod(large[::-1]) | np.cumprod(large[3:]) | np.cumprod(large[2::-1])
    np.cumprod(large[5:]) | np.cumsum([1e308, 1e308, -1e308, -1e308])
    np.cumprod(large.reshape(4, 2), axis=0) | np.nancumprod(large[::-1])
few = np.array([[3, 4, 5], [6, 7, 8]], '>u8')
    np.choose(1, few) | np.choose([1, 0, 1], few) | np.choose([1, 0, 1], [few[0], 3]) | few.tobytes(order=())
    np.array(few, order=()) | np.zeros(3, order=()) | np.eye(3, order=())
    np.trim_zeros([[1.5, 2.0], [0.0, 1]], axis=()) | np.arange(-1, -1, dtype='u1')
    np.arange(-few[0, 0].astype('i8'), 3, dtype='u1') | np.arange(255, 300, 600, dtype='u1')
    np.arange(np.int8(-3), 3, dtype='u1') | np.arange(np.float32(-3), 3, dtype='u1') | np.arange(-5, -7, dtype='u1')
    np.arange(0, 5, inf) | np.arange(0, 5, -inf) | np.arange(5, 0, -inf) | np.arange(2, 2, inf)
    np.arange(0, 1e-300, 1e300)
turned = np.ones((2, 3, 4)).T
    turned[True, [0, 1], True, True, [1], [[1]]] | turned[[0, 1], True] | turned[False, [0, 1]]
    turned[np.True_, [1, 0]]
lines = np.zeros((5, 4, 0))
    np.take(lines, 9, axis=1) | lines.take([9], axis=1) | np.take(lines, -9, axis=0) | np.take(lines[:0], 9, axis=1)
    np.take(lines, 9, axis=1, mode='wrap') | np.take(lines[:0], [9], axis=1)
    np.interp(1j, [0.0, 1.0], [0.0, 1.0], period=2)
"""


NEW = {  # in NumPy 2.3 or 2.4
    "np.linalg.vector_norm(table[:0], ord=inf)",
    "np.trim_zeros([[1.5, 2.0], [0.0, 1]], axis=())",
    "np.unique(numbers, sorted=())",
}


def found() -> list[tuple[str, str, str]]:
    """The name of an array, its text, and a statement."""
    rows, name, text = [], "", ""
    for line in FOUND.strip().splitlines():
        if line[0] != " ":
            name, _, text = line.partition(" = ")
        else:
            rows += [(name, text, one) for one in line.strip().split(" | ")]
    return [row for row in rows if row[2] not in NEW] if numpy_before("2.4.5") else rows


def halves(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Chunks of two elements along each axis."""
    return tuple((2,) * (n // 2) + (1,) * (n % 2) or (0,) for n in shape)


@pytest.mark.parametrize(("name", "text", "line"), found())
def test_statement_that_differed_is_numpys(name: str, text: str, line: str, engine: OneByOne) -> None:
    array = eval(text, {"np": np, "nan": nan, "inf": inf})
    tried = Tried({name: Made(text, array, halves(array.shape))}, line)
    assert not tried.difference(Tally())

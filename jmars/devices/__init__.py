"""GPUs: their memory and streams behind one protocol, and programs that run there.

- device.py: what jmars asks of a GPU, and the errors of a GPU
- fake_device.py: a GPU made of NumPy, with streams that run as late or as early as events allow
- cupy_device.py: a GPU of NVIDIA, by CuPy
- cuda_module.py: compiles kernels for the GPU of this process
- kernel_files.py: keeps compiled kernels for the next process
- cuda_errors.py: CUDA's errors as those of device.py
- launches.py: sizes with which kernels are launched
- index_expressions.py: ranges as expressions of an element's index
- matrices.py: decompositions, inverses and solutions, by NumPy or CuPy
- library.py: functions that a GPU runs by name, on arrays of NumPy or of CuPy
- device_program.py: a program as calls of a device
- contents.py: chunks in the memory of a device, and the events to wait for
- staging.py: copies between shared memory and a device
- pinned_segments.py: shared memory that streams copy directly
- runner.py: runs operands on a device, with copies beside kernels
- find.py: which GPUs a machine has, and how a process opens one
"""

"""GPUs: their memory and streams behind one protocol, and programs that run there.

- device.py: what jmars asks of a GPU, and the errors of a GPU
- fake_device.py: a GPU made of NumPy, with streams that run as late or as early as events allow
- cupy_device.py: a GPU of NVIDIA, by CuPy
- library.py: functions that a GPU runs by name, on arrays of NumPy or of CuPy
- device_program.py: a program as calls of a device
- runner.py: runs operands on a device, with copies beside kernels
- find.py: finds the GPUs of a machine, and opens a GPU in a process
"""

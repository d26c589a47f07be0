"""The NumPy oracle: what the kernels must compute, written for reading. Imports nothing of ours."""

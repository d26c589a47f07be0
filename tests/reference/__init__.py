"""The NumPy oracle of the kernels, written for reading. It imports nothing of the package."""

"""Conversion to ``.rknn`` files with the vendor's rknn-toolkit2, for PCs."""

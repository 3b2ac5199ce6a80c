"""Many runs from one file, on the cores of this machine or on a Dask cluster."""

"""Training on a Dask cluster, for data that no single machine holds (``pip install flrml[dask]``).

This package is imported when an estimator gets a dask array. A *block* is a block of rows of that array: a NumPy
array, a CSR matrix, or :class:`flrml.distributed.stored.StoredRows`, rows that stay on disk until they are read.
"""

from flrml.distributed.closed_form import fit_ridge
from flrml.distributed.descent import fit_flrml
from flrml.distributed.embedding import embed, nearest_in_blocks
from flrml.distributed.remote_rows import RemoteRows, on_client
from flrml.distributed.spectral import RemoteSpectrum, decompose
from flrml.distributed.stored import open_split, prepare

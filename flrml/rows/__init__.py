"""Rows of a data matrix, dense or sparse, in memory or in a memory map.

No other module of flrml reads large matrices, so that only a block of rows is in memory at once.

* :mod:`~flrml.rows.layout`: kinds of rows and blocks of them; :class:`RowOperator`.
* :mod:`~flrml.rows.checks`, :mod:`~flrml.rows.measures`: validation, lengths, means, digests.
* :mod:`~flrml.rows.products`: products with dense matrices, and Gram matrices.
* :mod:`~flrml.rows.csr`, :mod:`~flrml.rows.binary`: CSR matrices, and rows of zeros and ones.
* :mod:`~flrml.rows.wide`: few wide rows, represented by their inner products.
* :mod:`~flrml.rows.threads`: threads that share the work.
"""

from flrml.rows.binary import BinaryRows, RunRows
from flrml.rows.checks import canonical, check_largest, check_rows, check_scale, check_sparse, check_unmasked
from flrml.rows.layout import (
    RowOperator,
    in_float64,
    is_dask,
    is_sparse,
    large_arrays,
    n_bytes,
    occurring_columns,
    on_disk,
    row_blocks,
    take_rows,
)
from flrml.rows.measures import fingerprint, largest_value, normalize, row_means, row_products
from flrml.rows.products import (
    add_product_transposed,
    cross_gram,
    gram,
    gram_of_columns,
    product,
    product_transposed,
)

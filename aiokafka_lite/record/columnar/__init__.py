"""Record sets as columns, for Arrow and Spark: no Python object per record."""

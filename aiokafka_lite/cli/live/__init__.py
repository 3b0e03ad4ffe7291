"""The live view of a cluster: samples of its offsets, rates between them, and the screen."""

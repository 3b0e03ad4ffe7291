"""Groups of the classic protocol, as a coordinator keeps them."""

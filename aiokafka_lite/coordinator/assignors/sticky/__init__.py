"""The sticky assignor under aiokafka's import path."""

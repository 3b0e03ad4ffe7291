"""aiokafka's path to the sticky assignor."""

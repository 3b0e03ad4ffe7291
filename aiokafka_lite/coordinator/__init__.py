"""aiokafka's path to assignors, and what lets assignors written for aiokafka work in our groups."""

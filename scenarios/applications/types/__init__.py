"""aiokafka.structs and aiokafka.errors: what applications get from clients, and catch."""

"""The way of one request, from the client's bytes to the last byte of its answer. See `gateway`."""

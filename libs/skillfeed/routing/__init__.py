"""Channels, aggregation, fusion, reranking: the one Router. Ray-free."""

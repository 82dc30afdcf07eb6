"""Retriever and reranker backends behind two small protocols."""

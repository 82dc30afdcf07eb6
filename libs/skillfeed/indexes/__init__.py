"""Dense (FAISS) and lexical (Lucene) indexes and the snapshot that holds them."""

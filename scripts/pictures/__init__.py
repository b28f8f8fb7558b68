"""The pictures of the documents, one module each."""

"""Requests embeddings with the official OpenAI client, as an agent does.

usage: embeddings.py URL
"""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
answer = client.embeddings.create(
    model="static", input=["post a message in the chat", "send a chat message", "terminate the server"]
)
vectors = [entry.embedding for entry in answer.data]
similar = [sum(a * b for a, b in zip(vectors[0], other)) for other in vectors]
nearest = max(range(1, len(vectors)), key=lambda index: similar[index])
print(f"{len(vectors)} vectors of {len(vectors[0])}, the nearest to the first is {nearest}")

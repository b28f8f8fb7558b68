"""Sums of rows of a table in PyTorch, and Adam that moves only the rows which a batch touches."""

import numpy as np
import torch
import torch.nn.functional as F


def bags(table, lists):
    """The sums of some rows for each list of their numbers, shape lists x dimensions."""
    at = torch.tensor(np.cumsum([0] + [len(x) for x in lists[:-1]]))
    return F.embedding_bag(torch.from_numpy(np.concatenate([np.asarray(x, np.int64) for x in lists])), table, at, mode="sum")


class Lazy:
    """A table that learns; its own step counts for each row (Adam, beta 0.9 and 0.99)."""

    def __init__(s, rows):
        s.rows = rows
        s.mean, s.square, s.steps = torch.zeros_like(rows), torch.zeros_like(rows), torch.zeros(len(rows), 1)

    def begin(s, fixed, *groups):
        """Sums for each list of each group; numbers from len(fixed) on are rows of the table."""
        touched, at = np.unique(np.concatenate([np.asarray(x, np.int64) for g in groups for x in g]), return_inverse=True)
        own = touched >= len(fixed)
        s.touched = torch.from_numpy(touched[own] - len(fixed))
        s.leaf = s.rows[s.touched].clone().requires_grad_()
        here = torch.cat([fixed[torch.from_numpy(touched[~own])], s.leaf])
        cuts = np.cumsum([len(x) for g in groups for x in g])[:-1]
        lists = iter(np.split(at, cuts))
        sums = [bags(here, [next(lists) for _ in g]) for g in groups]
        return sums if len(sums) > 1 else sums[0]

    def step(s, rate):
        u, g = s.touched, s.leaf.grad
        s.steps[u] += 1
        s.mean[u] = 0.9 * s.mean[u] + 0.1 * g
        s.square[u] = 0.99 * s.square[u] + 0.01 * g * g
        t = s.steps[u]
        s.rows[u] -= rate * (s.mean[u] / (1 - 0.9**t)) / ((s.square[u] / (1 - 0.99**t)).sqrt() + 1e-8)

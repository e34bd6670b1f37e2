"""Attention to a window of positions, written as loops and used as a layer of PyTorch.

PyTorch has no operation for it: with its own, one pads and unfolds keys and values, which costs memory for every position of
every window. Here the loops are the operation; its gradient is generated, and runs in parallel without atomics.
"""

import torch

import loopgrad as lg


@lg.program
def window_attention(p):
    length, width, window = p.sizes("length width window")
    q = p.input("q", (length, width))
    k = p.input("k", (length, width))
    v = p.input("v", (length, width))
    y = p.output("y", (length, width))
    for i in p.loop("i", length):
        first, last = lg.max(i - window, 0), lg.min(i + window + 1, length)
        score = p.local("score", length)
        largest = p.scalar("largest", init=-1e30)
        for j in p.loop("j", first, last):
            score[j] = 0
            for d in p.loop("d", width):
                score[j] += q[i, d] * k[j, d]
            largest.max_with(score[j])
        total = p.scalar("total", init=0.0)
        for j in p.loop("j", first, last):
            score[j] = lg.exp(score[j] - largest)
            total += score[j]
        for d in p.loop("d", width):
            y[i, d] = 0
            for j in p.loop("j", first, last):
                y[i, d] += score[j] / total * v[j, d]


attention = lg.torch.op(window_attention)


def with_torch(q, k, v, window):
    """The same with a full matrix of scores, of which most is masked."""
    n = q.shape[0]
    distance = (torch.arange(n)[:, None] - torch.arange(n)[None, :]).abs()
    return (q @ k.T).masked_fill(distance > window, float("-inf")).softmax(-1) @ v


def main():
    torch.manual_seed(1)
    q, k, v = (torch.randn(200, 16, requires_grad=True) for _ in range(3))
    mine, theirs = attention(q, k, v, window=5), with_torch(q, k, v, 5)
    weight = torch.randn_like(mine)
    gradients = [torch.autograd.grad((y * weight).sum(), (q, k, v)) for y in (mine, theirs)]
    differences = [float((a - b).abs().max()) for a, b in zip(*gradients)]
    print(f"values differ by {float((mine - theirs).abs().max()):.1e}, gradients by", ", ".join(f"{d:.1e}" for d in differences))
    assert max(differences) < 1e-4


if __name__ == "__main__":
    main()

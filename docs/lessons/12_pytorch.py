"""The attention of lesson 6 as an operation of PyTorch: recorded from Python, checked, and trained through."""

import torch

import loopgrad as lg


@lg.program
def attention(p, scalar="f32"):
    length, width, window = p.sizes("length width window")
    q, k, v = (p.input(name, (length, width), scalar) for name in "qkv")
    slope = p.input("slope", (), scalar)
    y = p.output("y", (length, width), scalar)
    for i in p.loop("i", length):
        first = lg.max(i - window, 0)
        score = p.local("score", length, scalar)
        largest, total = p.scalar("largest", scalar, init=-1e30), p.scalar("total", scalar, init=0)
        for j in p.loop("j", first, i + 1):
            score[j] = slope[...] * (j - i)
            for d in p.loop("d", width):
                score[j] += q[i, d] * k[j, d]
            largest.max_with(score[j])
        for j in p.loop("j", first, i + 1):
            score[j] = lg.exp(score[j] - largest)
            total += score[j]
        for d in p.loop("d", width):
            y[i, d] = 0
        for j in p.loop("j", first, i + 1):
            for d in p.loop("d", width):
                y[i, d] += score[j] / total * v[j, d]


class Attention(torch.nn.Module):
    operation = staticmethod(lg.torch.op(attention()))

    def __init__(self, window):
        super().__init__()
        self.window, self.slope = window, torch.nn.Parameter(torch.zeros(()))

    def forward(self, q, k, v):
        return self.operation(q, k, v, self.slope, window=self.window)


def data(length, width, dtype=torch.float32):
    at = torch.arange(length * width, dtype=dtype).reshape(length, width)
    return torch.sin(at), torch.cos(at), torch.sin(2 * at)


# Is it right? PyTorch's own check, in f64: the first derivatives, and the derivatives of these.
q, k, v = (x.requires_grad_() for x in data(5, 2, torch.float64))
slope = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
in_f64 = lg.torch.op(attention("f64"))
arguments = (q, k, v, slope)
print("gradient:", torch.autograd.gradcheck(lambda *x: in_f64(*x, window=3), arguments))
print("second:  ", torch.autograd.gradgradcheck(lambda *x: in_f64(*x, window=3), arguments))

# A slope is learned from what a model with another one gives.
q, k, v = data(50, 4)
model, wanted = Attention(window=8), Attention(window=8)
torch.nn.init.constant_(wanted.slope, 0.5)
y = wanted(q, k, v).detach()
optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(201):
    optimiser.zero_grad()
    loss = ((model(q, k, v) - y) ** 2).mean()
    loss.backward()
    if step % 100 == 0:
        print(f"step {step:3}: slope {model.slope.item():.2f}")
    optimiser.step()

"""The first example of the README in Python, on arrays of NumPy."""

import numpy as np

import loopgrad as lg


@lg.program
def conv1d(p):
    n, k = p.sizes("n k")  # symbolic: one compilation serves all sizes
    x = p.input("x", (n + k - 1,))
    w = p.input("w", (k,))
    y = p.output("y", (n,))
    for i in p.loop("i", n):  # the body runs once and is recorded
        y[i] = 0
        for j in p.loop("j", k):
            y[i] += x[i + j] * w[j]


gradient = lg.compile_gradient(conv1d, wrt=["x", "w"])
x, w = np.ones(1002, np.float32), np.array([1, 2, 3], np.float32)
y = gradient.forward(x=x, w=w)
d_x, d_w = gradient.backward(d_y=np.ones(1000, np.float32))
print("y[0] =", y[0], ", d_x =", d_x[:3], ", d_w =", d_w, "; they differ by", abs(d_w - 1000).max(), "from what is right")
assert y[0] == 6 and list(d_x[:3]) == [1, 3, 6] and (d_w == 1000).all()

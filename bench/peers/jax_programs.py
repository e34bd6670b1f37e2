"""The programs in JAX, each as its users would write it: functions of a dictionary of arrays and one of sizes."""

import jax
import jax.numpy as jnp
import numpy as np

DT = 0.1


def conv1d(a, s):
    return jax.lax.conv_general_dilated(a["x"][None, None], a["w"][None, None], (1,), "VALID")[0, 0]


def matmul(a, s):
    return a["a"] @ a["b"]


def heat2d(a, s):
    u = a["u0"]
    for _ in range(s["T"]):
        c = u[1:-1, 1:-1]
        lap = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * c
        u = u.at[1:-1, 1:-1].set(c + DT * (lap - c * c * c))
    return u


def burgers(a, s):
    u = a["u0"]
    for _ in range(s["T"]):
        c = u[1:-1, 1:-1]
        up, down, west, east = u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]
        slopes = jnp.maximum(c, 0) * (2 * c - up - west) + jnp.minimum(c, 0) * (down + east - 2 * c)
        u = u.at[1:-1, 1:-1].set(c - DT * slopes)
    return u


def wave3d(a, s):
    before = u = a["u0"]
    for _ in range(s["T"]):
        p = jnp.pad(u, 1)
        i = slice(1, -1)
        lap = (p[:-2, i, i] + p[2:, i, i] + p[i, :-2, i] + p[i, 2:, i] + p[i, i, :-2] + p[i, i, 2:] - 6 * u)
        before, u = u, 2 * u - before + 0.1 * a["c"] * lap
    return u


def layernorm(a, s):
    x = a["x"]
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / jnp.sqrt(variance + 1e-5) * a["g"] + a["b"]


def tanh_chain(a, s):
    v = a["x"]
    for _ in range(s["layers"]):
        v = jnp.tanh(a["a"] * v + a["b"])
    return v


def attend(q, k, v, w, dilation):
    """Longformer's loop with gathered keys: scores beyond the ends are 0, as the padding makes them."""
    pad = w * dilation
    index = jnp.arange(q.shape[1])[:, None] + dilation * jnp.arange(2 * w + 1)
    shape = lambda x: jnp.pad(x, ((0, 0), (pad, pad), (0, 0)))[:, index]  # head, position, offset, d
    scores = jnp.einsum("hjd,hjod->hjo", q, shape(k))
    return jnp.einsum("hjo,hjod->hjd", jax.nn.softmax(scores) / q.shape[-1] ** 0.5, shape(v))


def window_attention(a, s):
    n = s["dilated"]
    groups = ((slice(0, n), 4), (slice(n, None), 1))  # of heads, with their dilation
    parts = [attend(a["q"][h], a["k"][h], a["v"][h], s["w"], d) for h, d in groups if a["q"][h].shape[0]]
    return jnp.concatenate(parts)


def csr_sum(a, s):
    return jax.ops.segment_sum(a["w"][:, None] * a["x"][a["src"]], a["end"], s["V"], indices_are_sorted=True)


def softmax(a, s):
    return jax.nn.softmax(a["x"])


def conv2d(a, s):
    pad = (s["R"] - 1) // 2
    return jax.lax.conv_general_dilated(a["x"], a["w"], (1, 1), ((pad, pad), (pad, pad)))


def mlp(a, s):
    h = jax.nn.relu(a["x"] @ a["w1"] + a["b1"])
    h = jax.nn.relu(h @ a["w2"] + a["b2"])
    z = h @ a["w3"] + a["b3"]
    chosen = jnp.take_along_axis(z, a["label"][:, None], 1)[:, 0]
    return (jax.nn.logsumexp(z, 1) - chosen).mean()


def lstm(a, s):
    def step(state, inputs):
        h, c = state
        i, f, g, o = jnp.split(inputs + h @ a["wh"], 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((s["batch"], s["hidden"]), a["x"].dtype)
    return jax.lax.scan(step, (zeros, zeros), a["x"] @ a["wx"] + a["bias"])[1]


def embedding(a, s):
    return a["table"][a["idx"]]


def histogram(a, s):
    position = a["x"] * (s["bins"] - 1)
    low = jnp.minimum(position.astype(jnp.int32), s["bins"] - 2)
    share = position - low
    h = jnp.zeros(s["bins"], a["x"].dtype)
    return h.at[low].add(a["weight"] * (1 - share)).at[low + 1].add(a["weight"] * share)


def gat(a, s):
    sums = lambda terms: jax.ops.segment_sum(terms, a["end"], s["V"], indices_are_sorted=True)
    h = a["x"] @ a["w"]
    score = jax.nn.leaky_relu((h @ a["al"])[a["src"]] + (h @ a["ar"])[a["end"]], 0.1)
    largest = jax.ops.segment_max(jax.lax.stop_gradient(score), a["end"], s["V"], indices_are_sorted=True)
    weight = jnp.exp(score - largest[a["end"]])
    return sums((weight / sums(weight)[a["end"]])[:, None] * h[a["src"]])


def subdivnet(a, s):
    near = a["x"][a["adj"]]  # face, neighbour, feature
    x, around = a["x"], jnp.abs(near - jnp.roll(near, -1, 1)).sum(1)
    return x @ a["w0"] + near.sum(1) @ a["w1"] + around @ a["w2"] + jnp.abs(near - x[:, None]).sum(1) @ a["w3"]


def cross(u, v):
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def squared_distance(p, a, b):
    edge, away = b - a, p - a
    t = jnp.clip((away * edge).sum(-1) / (edge * edge).sum(-1), 0, 1)
    return ((away - t[..., None] * edge) ** 2).sum(-1)


def softras(a, s):
    y, x = jnp.linspace(0, 1, s["height"]), jnp.linspace(0, 1, s["width"])
    p = jnp.stack(jnp.meshgrid(x, y), -1)  # row, column, x and y
    corners = [a["vertex"][a["face"][:, k], :2][:, None, None] for k in range(3)]
    edges = list(zip(corners, corners[1:] + corners[:1]))
    d = jnp.stack([squared_distance(p, u, v) for u, v in edges]).min(0)
    turns = jnp.stack([cross(v - u, p - u) for u, v in edges])
    inside = (turns >= 0).all(0) | (turns <= 0).all(0)
    return jax.nn.sigmoid(jnp.where(inside, d, -d) / 1e-4)


def gmm(a, s):
    r, c = np.tril_indices(s["d"], -1)
    diagonal = jnp.arange(s["d"])
    root = jnp.zeros((s["K"], s["d"], s["d"]), a["x"].dtype)
    root = root.at[:, diagonal, diagonal].set(jnp.exp(a["q"])).at[:, r, c].set(a["l"])
    z = jnp.einsum("krc,nkc->nkr", root, a["x"][:, None] - a["mu"])
    term = a["alpha"] + a["q"].sum(1) - 0.5 * (z * z).sum(2)
    return jax.nn.logsumexp(term, 1).sum() - s["n"] * jax.nn.logsumexp(a["alpha"])


def ba(a, s):
    camera, point = a["camera"][a["camera_of"]], a["point"][a["point_of"]]
    axis, p = camera[:, :3], point - camera[:, 3:6]
    angle = jnp.sqrt((axis * axis).sum(1, keepdims=True) + 1e-12)
    unit = axis / angle
    along = (unit * p).sum(1, keepdims=True)
    turned = jnp.cos(angle) * p + jnp.sin(angle) * jnp.cross(unit, p) + along * (1 - jnp.cos(angle)) * unit
    xy = turned[:, :2] / turned[:, 2:]
    squared = (xy * xy).sum(1, keepdims=True)
    distortion = 1 + camera[:, 9:10] * squared + camera[:, 10:11] * squared * squared
    return a["weight"][:, None] * (camera[:, 6:7] * distortion * xy + camera[:, 7:9] - a["seen"])


PROGRAMS = {
    "conv1d": conv1d,
    "matmul": matmul,
    "heat2d": heat2d,
    "burgers": burgers,
    "wave3d": wave3d,
    "layernorm": layernorm,
    "tanh_chain": tanh_chain,
    "window_attention": window_attention,
    "longformer": window_attention,
    "csr_sum": csr_sum,
    "softmax": softmax,
    "conv2d": conv2d,
    "mlp": mlp,
    "lstm": lstm,
    "embedding": embedding,
    "histogram": histogram,
    "gat": gat,
    "subdivnet": subdivnet,
    "softras": softras,
    "gmm": gmm,
    "ba": ba,
    "add": lambda a, s: a["a"] + a["b"],
    "broadcast": lambda a, s: jnp.broadcast_to(a["a"], (s["n"], s["n"])),
    "copy": lambda a, s: jnp.copy(a["a"]),
    "divide": lambda a, s: a["a"] / a["b"],
    "exp": lambda a, s: jnp.exp(a["a"]),
    "log": lambda a, s: jnp.log(a["a"]),
    "max": lambda a, s: a["a"].max(1),
    "multiply": lambda a, s: a["a"] * a["b"],
    "negate": lambda a, s: -a["a"],
    "power": lambda a, s: a["a"] ** a["b"],
    "relu": lambda a, s: jax.nn.relu(a["a"]),
    "subtract": lambda a, s: a["a"] - a["b"],
    "sum": lambda a, s: a["a"].sum(1),
    "transpose": lambda a, s: a["a"].T,
}

"""The programs in PyTorch, each as its users would write it: functions of a dictionary of tensors and one of sizes."""

import torch
import torch.nn.functional as F

DT = 0.1


def conv1d(a, s):
    return F.conv1d(a["x"][None, None], a["w"][None, None])[0, 0]


def matmul(a, s):
    return a["a"] @ a["b"]


def heat2d(a, s):
    u = a["u0"]
    for _ in range(s["T"]):
        c = u[1:-1, 1:-1]
        lap = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * c
        top, bottom, left, right = u[:1], u[-1:], u[1:-1, :1], u[1:-1, -1:]
        u = torch.cat([top, torch.cat([left, c + DT * (lap - c * c * c), right], 1), bottom])
    return u


def burgers(a, s):
    u = a["u0"]
    for _ in range(s["T"]):
        c = u[1:-1, 1:-1]
        up, down, west, east = u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]
        slopes = c.clamp(min=0) * (2 * c - up - west) + c.clamp(max=0) * (down + east - 2 * c)
        u = torch.cat([u[:1], torch.cat([u[1:-1, :1], c - DT * slopes, u[1:-1, -1:]], 1), u[-1:]])
    return u


def wave3d(a, s):
    before = u = a["u0"]
    for _ in range(s["T"]):
        p = F.pad(u, (1,) * 6)
        i = slice(1, -1)
        lap = (p[:-2, i, i] + p[2:, i, i] + p[i, :-2, i] + p[i, 2:, i] + p[i, i, :-2] + p[i, i, 2:] - 6 * u)
        before, u = u, 2 * u - before + 0.1 * a["c"] * lap
    return u


def layernorm(a, s):
    return F.layer_norm(a["x"], (s["cols"],), a["g"], a["b"], 1e-5)


def tanh_chain(a, s):
    v = a["x"]
    for _ in range(s["layers"]):
        v = torch.tanh(a["a"] * v + a["b"])
    return v


def attend(q, k, v, w, dilation):
    """Longformer's loop with unfolded keys: scores beyond the ends are 0, as the padding makes them."""
    pad = w * dilation
    shape = lambda x: F.pad(x, (0, 0, pad, pad)).unfold(1, 2 * pad + 1, 1)[..., ::dilation]  # head, position, d, offset
    scores = torch.einsum("hjd,hjdo->hjo", q, shape(k))
    return torch.einsum("hjo,hjdo->hjd", torch.softmax(scores, -1) / q.shape[-1] ** 0.5, shape(v))


def window_attention(a, s):
    n = s["dilated"]
    groups = ((slice(0, n), 4), (slice(n, None), 1))  # of heads, with their dilation
    parts = [attend(a["q"][h], a["k"][h], a["v"][h], s["w"], d) for h, d in groups if a["q"][h].shape[0]]
    return torch.cat(parts)


def csr_sum(a, s):
    messages = a["w"][:, None] * a["x"][a["src"]]
    return torch.zeros_like(a["x"]).index_add(0, a["end"], messages)


def softmax(a, s):
    return torch.softmax(a["x"], 1)


def conv2d(a, s):
    return F.conv2d(a["x"], a["w"], padding=(s["R"] - 1) // 2)


def mlp(a, s):
    h = torch.relu(torch.addmm(a["b1"], a["x"], a["w1"]))
    h = torch.relu(torch.addmm(a["b2"], h, a["w2"]))
    return F.cross_entropy(torch.addmm(a["b3"], h, a["w3"]), a["label"])


def lstm(a, s):
    h = c = a["x"].new_zeros(s["batch"], s["hidden"])
    inputs = a["x"] @ a["wx"] + a["bias"]
    y = []
    for t in range(s["T"]):
        i, f, g, o = torch.chunk(inputs[t] + h @ a["wh"], 4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        y.append(h)
    return torch.stack(y)


def embedding(a, s):
    return F.embedding(a["idx"], a["table"])


def histogram(a, s):
    position = a["x"] * (s["bins"] - 1)
    low = position.long().clamp(max=s["bins"] - 2)
    share = position - low
    h = a["weight"].new_zeros(s["bins"])
    return h.index_add(0, low, a["weight"] * (1 - share)).index_add(0, low + 1, a["weight"] * share)


def gat(a, s):
    h = a["x"] @ a["w"]
    score = F.leaky_relu((h @ a["al"])[a["src"]] + (h @ a["ar"])[a["end"]], 0.1)
    none = score.new_full((s["V"],), -1e30)
    largest = none.scatter_reduce(0, a["end"], score.detach(), "amax")
    weight = torch.exp(score - largest[a["end"]])
    sums = torch.zeros_like(none).index_add(0, a["end"], weight)
    return torch.zeros_like(h).index_add(0, a["end"], (weight / sums[a["end"]])[:, None] * h[a["src"]])


def subdivnet(a, s):
    near = a["x"][a["adj"]]  # face, neighbour, feature
    x, around = a["x"], (near - near.roll(-1, 1)).abs().sum(1)
    return x @ a["w0"] + near.sum(1) @ a["w1"] + around @ a["w2"] + (near - x[:, None]).abs().sum(1) @ a["w3"]


def cross(u, v):
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def squared_distance(p, a, b):
    edge, away = b - a, p - a
    t = ((away * edge).sum(-1) / (edge * edge).sum(-1)).clamp(0, 1)
    return ((away - t[..., None] * edge) ** 2).sum(-1)


def softras(a, s):
    y, x = torch.linspace(0, 1, s["height"]), torch.linspace(0, 1, s["width"])
    p = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).to(a["vertex"].device)  # row, column, x and y
    corners = [a["vertex"][a["face"][:, k], :2][:, None, None] for k in range(3)]
    edges = list(zip(corners, corners[1:] + corners[:1]))
    d = torch.stack([squared_distance(p, u, v) for u, v in edges]).amin(0)
    turns = torch.stack([cross(v - u, p - u) for u, v in edges])
    inside = (turns >= 0).all(0) | (turns <= 0).all(0)
    return torch.sigmoid(torch.where(inside, d, -d) / 1e-4)


def gmm(a, s):
    d = s["d"]
    r, c = torch.tril_indices(d, d, -1, device=a["x"].device)
    root = torch.diag_embed(torch.exp(a["q"])).index_put((torch.arange(s["K"], device=r.device)[:, None], r, c), a["l"])
    z = torch.einsum("krc,nkc->nkr", root, a["x"][:, None] - a["mu"])
    term = a["alpha"] + a["q"].sum(1) - 0.5 * (z * z).sum(2)
    return torch.logsumexp(term, 1).sum() - s["n"] * torch.logsumexp(a["alpha"], 0)


def ba(a, s):
    camera, point = a["camera"][a["camera_of"]], a["point"][a["point_of"]]
    axis, p = camera[:, :3], point - camera[:, 3:6]
    angle = torch.sqrt((axis * axis).sum(1, keepdim=True) + 1e-12)
    unit = axis / angle
    along = (unit * p).sum(1, keepdim=True)
    turned = torch.cos(angle) * p + torch.sin(angle) * torch.linalg.cross(unit, p) + along * (1 - torch.cos(angle)) * unit
    xy = turned[:, :2] / turned[:, 2:]
    squared = (xy * xy).sum(1, keepdim=True)
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
    "broadcast": lambda a, s: a["a"].expand(s["n"], s["n"]).contiguous(),
    "copy": lambda a, s: a["a"].clone(),
    "divide": lambda a, s: a["a"] / a["b"],
    "exp": lambda a, s: torch.exp(a["a"]),
    "log": lambda a, s: torch.log(a["a"]),
    "max": lambda a, s: torch.max(a["a"], 1).values,
    "multiply": lambda a, s: a["a"] * a["b"],
    "negate": lambda a, s: -a["a"],
    "power": lambda a, s: a["a"] ** a["b"],
    "relu": lambda a, s: torch.relu(a["a"]),
    "subtract": lambda a, s: a["a"] - a["b"],
    "sum": lambda a, s: a["a"].sum(1),
    "transpose": lambda a, s: a["a"].T.contiguous(),
}

"""Programs of bench/fields in PyTorch, where its users would write them there: few operations on large arrays."""

import torch
import torch.nn.functional as F


def element_forces(a, s):
    u = a["u"][a["node"]]  # element, corner, component
    here, there = u[:, :, None], u[:, None]
    f = a["k"][:, None, None] * ((there - here) * (1 + 0.1 * there)).sum(2)
    return torch.zeros_like(a["u"]).index_add(0, a["node"].flatten(), f.flatten(0, 1))


def fv_faces(a, s):
    own, nei, bown, area, vel, q = (a[n] for n in ("own", "nei", "bown", "area", "vel", "q"))
    cells = torch.cat([own, nei])
    flux = 0.5 * ((vel[own] + vel[nei]) * area).sum(1)
    bflux = (vel[bown] * a["barea"]).sum(1)
    leaves = bflux > 0
    weight = 1 / (1 + a["vol"] ** 2)
    up = torch.where(flux > 0, own, nei)  # the cell that a face takes its value from
    reach = 0.1 * torch.where(flux > 0, 1, -1)[:, None] * area * weight[up][:, None]
    outflow = []
    for _ in range(s["steps"]):
        qf = (0.5 * (q[own] + q[nei]))[:, None] * area
        g = torch.zeros_like(vel).index_add(0, cells, torch.cat([qf, -qf]))
        g = g.index_add(0, bown, q[bown][:, None] * a["barea"])
        across = torch.cat([q[nei], q[own]])
        hi = q.scatter_reduce(0, cells, across, "amax")
        lo = q.scatter_reduce(0, cells, across, "amin")
        value = torch.minimum(hi[up], torch.maximum(lo[up], q[up] + (g[up] * reach).sum(1)))
        through = flux * value
        out = bflux * torch.where(leaves, q[bown], a["inflow"])
        res = torch.zeros_like(q).index_add(0, cells, torch.cat([-through, through])).index_add(0, bown, -out)
        q = q + 0.05 * res * weight
        outflow.append(torch.where(leaves, out, 0).sum())
    return {"q": q, "outflow": torch.stack(outflow)}


def segment_softmax(a, s):
    x, end = a["x"], a["end"]
    top = x.new_full((s["v"],), -1e30).scatter_reduce(0, end, x.detach(), "amax")
    weight = torch.exp(x - top[end])
    return weight / x.new_zeros(s["v"]).index_add(0, end, weight)[end]


def edge_neighbours(a, s):
    """The neighbours of a node summed by kind, so that an edge meets kinds only."""
    x, col = a["x"], a["col"]
    of_kind = x.new_zeros(s["n"] * s["kinds"]).index_add(0, a["end"] * s["kinds"] + a["kind"][col], x[col])
    of_kind = of_kind.view(s["n"], s["kinds"])
    return ((of_kind @ a["t"])[a["from"]] * of_kind[a["to"]]).sum(1)


def sph(a, s):
    x, other, end = a["x"], a["other"], a["end"]
    away = x[end] - x[other]
    near = torch.exp(-(away * away).sum(1))
    density = x.new_full((s["n"],), 0.5).index_add(0, end, (1 + 0.1 * a["mass"][other]) * near)
    strength = (1 / density[end] + 1 / density[other]) * near
    return torch.zeros_like(x).index_add(0, end, strength[:, None] * away)


def pair_forces(a, s):
    x, size = a["x"], a["size"]
    away = x[:, None] - x
    r2 = 0.3 + (away * away).sum(2)
    s6 = ((1 + 0.1 * size[:, None] * size) / r2) ** 3
    near = (r2 < 1.5) & ~torch.eye(s["n"], dtype=torch.bool, device=x.device)
    energy = 0.5 * torch.where(near, 0.04 * (s6 * s6 - s6), 0).sum()
    scale = torch.where(near, 0.1 * s6 * (2 * s6 - 1) / r2, 0)
    return {"force": (scale[:, :, None] * away).sum(1), "energy": energy}


def particle_in_cell(a, s):
    g, charge, x, v = s["g"], a["charge"], a["x"], a["v"]
    energy = []
    for _ in range(s["t"]):
        cell = torch.floor(x.detach() * g)
        part = x * g - cell
        low, high = cell.long() % g, (cell.long() + 1) % g
        rho = x.new_zeros(g).index_add(0, low, charge * (1 - part)).index_add(0, high, charge * part)
        field = 0.5 * (rho.roll(1) - rho.roll(-1))
        energy.append((field * field).sum())
        v = v + 0.1 * charge * ((1 - part) * field[low] + part * field[high])
        x = x + 0.1 * v
    return {"x": x, "v": v, "energy": torch.stack(energy)}


def hmm(a, s):
    emit = a["emit"].T[a["seen"].T]  # time, batch, state
    move = torch.exp(a["move"])
    alpha = emit[0]
    for t in range(1, s["t"]):
        top = alpha.detach().amax(1, keepdim=True)
        alpha = top + torch.log(torch.exp(alpha - top) @ move) + emit[t]
    return torch.logsumexp(alpha, 1)


def gray_scott(a, s):
    def laplacian(u):
        return u.roll(-1, 0) + u.roll(1, 0) + u.roll(-1, 1) + u.roll(1, 1) - 4 * u

    u, v = a["u"], a["v"]
    for _ in range(s["steps"]):
        uvv = u * v * v
        new_u = u + 0.16 * laplacian(u) - 0.1 * uvv + 0.05 * a["feed"] * (1 - u)
        u, v = new_u, v + 0.08 * laplacian(v) + 0.1 * uvv - 0.05 * v
    return {"u": u, "v": v}


def bilateral(a, s):
    """All windows unfolded: what lies outside has no weight."""
    x, r = a["x"], s["r"]
    width = 2 * r + 1
    windows = F.pad(x, (r,) * 4).unfold(0, width, 1).unfold(1, width, 1)
    inside = F.pad(torch.ones_like(x), (r,) * 4).unfold(0, width, 1).unfold(1, width, 1)
    offset = torch.arange(-r, r + 1, device=x.device)
    away = 0.1 * (offset[:, None] ** 2 + offset**2)
    e = torch.exp(-((windows - x[..., None, None]) ** 2) - away) * inside
    return (e * windows).sum((2, 3)) / e.sum((2, 3))


def image_warp(a, s):
    image, h, w = a["image"], s["h"], s["w"]
    y = torch.arange(h, device=image.device)[:, None] + 2 * a["flow"][..., 0]
    x = torch.arange(w, device=image.device) + 2 * a["flow"][..., 1]
    fy, fx = (y - y.floor())[..., None], (x - x.floor())[..., None]
    y0, x0 = y.floor().long().clamp(0, h - 1), x.floor().long().clamp(0, w - 1)
    y1, x1 = (y0 + 1).clamp(max=h - 1), (x0 + 1).clamp(max=w - 1)
    upper = (1 - fx) * image[y0, x0] + fx * image[y0, x1]
    lower = (1 - fx) * image[y1, x0] + fx * image[y1, x1]
    return (1 - fy) * upper + fy * lower


def deformable_conv(a, s):
    h, w, device = s["h"], s["w"], a["x"].device
    x = a["x"].permute(1, 2, 0).contiguous()  # channels are read together
    k = torch.arange(9, device=device)[:, None, None]
    py = (torch.arange(h, device=device)[:, None] + k // 3 - 1 + a["off"][:, 0]).clamp(0, h - 1.001)
    px = (torch.arange(w, device=device) + k % 3 - 1 + a["off"][:, 1]).clamp(0, w - 1.001)
    iy, ix = py.long(), px.long()
    fy, fx = (py - iy)[..., None], (px - ix)[..., None]
    upper = (1 - fx) * x[iy, ix] + fx * x[iy, ix + 1]
    lower = (1 - fx) * x[iy + 1, ix] + fx * x[iy + 1, ix + 1]
    return torch.einsum("ock,khwc->ohw", a["wt"], (1 - fy) * upper + fy * lower)


def packed_cholesky(a, s):
    rows, columns = torch.tril_indices(s["n"], s["n"], device=a["a"].device)
    lower = a["a"].new_zeros(s["n"], s["n"]).index_put((rows, columns), a["a"])
    root = torch.linalg.cholesky(lower + lower.tril(-1).T)
    x = torch.linalg.solve_triangular(root, a["b"][:, None], upper=False)[:, 0]
    return {"a": root[rows, columns], "x": x, "logdet": 2 * torch.log(root.diagonal()).sum()}


def table_lookup(a, s):
    u = (torch.sin(a["x"]) * 0.4999 + 0.5) * (s["len"] - 1)
    low = u.floor().long()
    f = u - low
    return (1 - f) * a["table"][a["which"], low] + f * a["table"][a["which"], low + 1]


PROGRAMS = {
    "element_forces": element_forces,
    "fv_faces": fv_faces,
    "segment_softmax": segment_softmax,
    "edge_neighbours": edge_neighbours,
    "sph": sph,
    "pair_forces": pair_forces,
    "particle_in_cell": particle_in_cell,
    "hmm": hmm,
    "gray_scott": gray_scott,
    "bilateral": bilateral,
    "image_warp": image_warp,
    "deformable_conv": deformable_conv,
    "packed_cholesky": packed_cholesky,
    "table_lookup": table_lookup,
}

# Steps of time that torch.compile would lay out one after the other, and compile for minutes: eager only.
LONG_LOOPS = ("fv_faces", "gray_scott", "hmm", "particle_in_cell")

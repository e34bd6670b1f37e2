"""Programs of bench/fields on meshes, graphs and particles in JAX, each as its users would write it: values gathered at
both ends, sums by `segment_sum` or `at[].add`, steps of time by `lax.scan`, computed again in the backward sweep."""

import jax
import jax.numpy as jnp
from jax.ops import segment_max, segment_sum


def element_forces(a, s):
    u = a["u"][a["node"]]  # element, corner, component
    here, there = u[:, :, None], u[:, None]
    f = a["k"][:, None, None] * ((there - here) * (1 + 0.1 * there)).sum(2)
    return jnp.zeros_like(a["u"]).at[a["node"]].add(f)


@jax.custom_jvp
def largest(q, values, at):
    """max of q and of the values that belong to each element."""
    return q.at[at].max(values)


@largest.defjvp
def largest_jvp(primals, tangents):
    """JAX has no derivative of scatters of maxima: that of those which are the largest, shared by them."""
    q, values, at = primals
    top = largest(q, values, at)
    here, there = (q == top).astype(q.dtype), (values == top[at]).astype(q.dtype)
    number = here.at[at].add(there)
    return top, (here * tangents[0]).at[at].add(there * tangents[1]) / number


def fv_faces(a, s):
    own, nei, bown, area, vel, q = (a[n] for n in ("own", "nei", "bown", "area", "vel", "q"))
    cells = jnp.concatenate([own, nei])
    flux = 0.5 * ((vel[own] + vel[nei]) * area).sum(1)
    bflux = (vel[bown] * a["barea"]).sum(1)
    leaves = bflux > 0
    weight = 1 / (1 + a["vol"] ** 2)
    up = jnp.where(flux > 0, own, nei)  # the cell that a face takes its value from
    reach = 0.1 * jnp.where(flux > 0, 1, -1)[:, None] * area * weight[up][:, None]

    @jax.checkpoint
    def step(q, _):
        qf = (0.5 * (q[own] + q[nei]))[:, None] * area
        g = jnp.zeros_like(vel).at[cells].add(jnp.concatenate([qf, -qf]))
        g = g.at[bown].add(q[bown][:, None] * a["barea"])
        across = jnp.concatenate([q[nei], q[own]])
        hi, lo = largest(q, across, cells), -largest(-q, -across, cells)
        value = jnp.minimum(hi[up], jnp.maximum(lo[up], q[up] + (g[up] * reach).sum(1)))
        through = flux * value
        out = bflux * jnp.where(leaves, q[bown], a["inflow"])
        res = jnp.zeros_like(q).at[cells].add(jnp.concatenate([-through, through])).at[bown].add(-out)
        return q + 0.05 * res * weight, jnp.where(leaves, out, 0).sum()

    q, outflow = jax.lax.scan(step, q, None, s["steps"])
    return {"q": q, "outflow": outflow}


def shallow_water(a, s):
    wall = (a["right"] < 0)[:, None]
    l, r = a["left"], a["right"].clip(0)
    both = jnp.concatenate([l, r])
    n = jnp.stack([jnp.cos(3 * a["angle"]), jnp.sin(3 * a["angle"])], 1)
    bed = a["bed"]
    z = jnp.maximum(bed[l], bed[r])

    @jax.checkpoint
    def step(carry, _):
        h, m = carry
        hl, hr, ml, mr = h[l], h[r], m[l], m[r]
        deep_l, deep_r = jax.nn.relu(hl + bed[l] - z), jax.nn.relu(hr + bed[r] - z)
        ul = (ml * n).sum(1) * hl / (hl * hl + 1e-2)
        ur = (mr * n).sum(1) * hr / (hr * hr + 1e-2)
        wave_l, wave_r = jnp.sqrt(9.81 * deep_l + 1e-9), jnp.sqrt(9.81 * deep_r + 1e-9)
        speed = jnp.maximum(abs(ul) + wave_l, abs(ur) + wave_r)
        f = (0.5 * (deep_l * ul + deep_r * ur) - 0.5 * speed * (deep_r - deep_l))[:, None]
        g = 0.5 * f * (ml / (hl * hl + 0.1)[:, None] + mr / (hr * hr + 0.1)[:, None])
        pressure = lambda depth: (0.5 * 9.81 * depth * depth)[:, None] * n
        wet = ((deep_l > 1e-3) | (deep_r > 1e-3))[:, None]
        to_l = jnp.where(wet, jnp.concatenate([f, g + pressure(deep_l)], 1), 0)
        to_r = jnp.where(wet & ~wall, jnp.concatenate([f, g + pressure(deep_r)], 1), 0)
        only = jnp.concatenate([jnp.zeros_like(f), pressure(hl)], 1)
        sums = jnp.concatenate([-jnp.where(wall, only, to_l), to_r])
        d = jnp.zeros((s["cells"], 3), h.dtype).at[both].add(sums)
        h = jax.nn.relu(h + 0.01 * d[:, 0])
        dry = h < 1e-2
        size = jnp.sqrt((m * m).sum(1) + 1e-12)
        drag = 1 + 0.01 * a["friction"] ** 2 * size / jnp.where(dry, 1, h) ** 2
        m = jnp.where(dry[:, None], 0, (m + 0.01 * d[:, 1:]) / drag[:, None])
        return (h, m), h[a["at"]] + bed[a["at"]]

    (h, m), level = jax.lax.scan(step, (a["h"], a["m"]), None, s["steps"])
    return {"h": h, "m": m, "level": level.T}


def rows_sum(terms, a, count):
    return segment_sum(terms, a["end"], count, indices_are_sorted=True)


def segment_softmax(a, s):
    x, end = a["x"], a["end"]
    top = segment_max(jax.lax.stop_gradient(x), end, s["v"], indices_are_sorted=True)
    weight = jnp.exp(x - top[end])
    return weight / rows_sum(weight, a, s["v"])[end]


def edge_neighbours(a, s):
    """The neighbours of a node summed by kind, so that an edge meets kinds only."""
    x, col = a["x"], a["col"]
    of_kind = jnp.zeros((s["n"], s["kinds"]), x.dtype).at[a["end"], a["kind"][col]].add(x[col])
    return ((of_kind @ a["t"])[a["from"]] * of_kind[a["to"]]).sum(1)


def sph(a, s):
    x, other, end = a["x"], a["other"], a["end"]
    away = x[end] - x[other]
    near = jnp.exp(-(away * away).sum(1))
    density = 0.5 + rows_sum((1 + 0.1 * a["mass"][other]) * near, a, s["n"])
    strength = (1 / density[end] + 1 / density[other]) * near
    return rows_sum(strength[:, None] * away, a, s["n"])


def pair_forces(a, s):
    x, size = a["x"], a["size"]
    away = x[:, None] - x
    r2 = 0.3 + (away * away).sum(2)
    ratio = (1 + 0.1 * size[:, None] * size) / r2
    s6 = ratio**3
    near = (r2 < 1.5) & ~jnp.eye(s["n"], dtype=bool)
    energy = 0.5 * jnp.where(near, 0.04 * (s6 * s6 - s6), 0).sum()
    scale = jnp.where(near, 0.1 * s6 * (2 * s6 - 1) / r2, 0)
    return {"force": (scale[:, :, None] * away).sum(1), "energy": energy}


def particle_in_cell(a, s):
    g, charge = s["g"], a["charge"]

    @jax.checkpoint
    def step(carry, _):
        x, v = carry
        cell = jnp.floor(jax.lax.stop_gradient(x) * g).astype(jnp.int32)
        part = x * g - cell
        low, high = cell % g, (cell + 1) % g
        rho = jnp.zeros(g, x.dtype).at[low].add(charge * (1 - part)).at[high].add(charge * part)
        field = 0.5 * (jnp.roll(rho, 1) - jnp.roll(rho, -1))
        v = v + 0.1 * charge * ((1 - part) * field[low] + part * field[high])
        return (x + 0.1 * v, v), (field * field).sum()

    (x, v), energy = jax.lax.scan(step, (a["x"], a["v"]), None, s["t"])
    return {"x": x, "v": v, "energy": energy}


PROGRAMS = {
    "element_forces": element_forces,
    "fv_faces": fv_faces,
    "shallow_water": shallow_water,
    "segment_softmax": segment_softmax,
    "edge_neighbours": edge_neighbours,
    "sph": sph,
    "pair_forces": pair_forces,
    "particle_in_cell": particle_in_cell,
}

"""Programs of bench/fields on grids, images, tables and matrices in JAX, each as its users would write it: shifted
arrays, gathers for what lies between grid points, solvers of the library; steps of time are computed again in the
backward sweep."""

import jax
import jax.numpy as jnp
from jax.lax.linalg import tridiagonal_solve


def gray_scott(a, s):
    def laplacian(u):
        return jnp.roll(u, -1, 0) + jnp.roll(u, 1, 0) + jnp.roll(u, -1, 1) + jnp.roll(u, 1, 1) - 4 * u

    @jax.checkpoint
    def step(carry, _):
        u, v = carry
        uvv = u * v * v
        new_u = u + 0.16 * laplacian(u) - 0.1 * uvv + 0.05 * a["feed"] * (1 - u)
        return (new_u, v + 0.08 * laplacian(v) + 0.1 * uvv - 0.05 * v), None

    u, v = jax.lax.scan(step, (a["u"], a["v"]), None, s["steps"])[0]
    return {"u": u, "v": v}


def lattice_boltzmann(a, s):
    omega = a["omega"]

    @jax.checkpoint
    def step(f, _):
        west, rest, east = f
        rho = west + rest + east
        speed = (east - west) / rho
        even, odd = rho / 6 * (1 + 3 * speed * speed), rho / 2 * speed
        west = west + omega * (even - odd - west)
        rest = rest + omega * (2 / 3 * rho * (1 - 1.5 * speed * speed) - rest)
        east = east + omega * (even + odd - east)
        return (jnp.roll(west, -1), rest, jnp.roll(east, 1)), None

    return jnp.stack(jax.lax.scan(step, tuple(a["f"]), None, s["t"])[0])


def bilateral(a, s):
    x, r = a["x"], s["r"]
    n, m = x.shape
    padded, inside = jnp.pad(x, r), jnp.pad(jnp.ones((n, m), bool), r)
    sums = weights = 0
    for i in range(-r, r + 1):
        for j in range(-r, r + 1):
            window = slice(r + i, r + i + n), slice(r + j, r + j + m)
            there = padded[window]
            e = jnp.where(inside[window], jnp.exp(-((there - x) ** 2) - 0.1 * (i * i + j * j)), 0)
            sums, weights = sums + e * there, weights + e
    return sums / weights


def image_warp(a, s):
    image, h, w = a["image"], s["h"], s["w"]
    y = jnp.arange(h)[:, None] + 2 * a["flow"][..., 0]
    x = jnp.arange(w) + 2 * a["flow"][..., 1]
    fy, fx = (y - jnp.floor(y))[..., None], (x - jnp.floor(x))[..., None]
    y0 = jnp.floor(y).astype(jnp.int32).clip(0, h - 1)
    x0 = jnp.floor(x).astype(jnp.int32).clip(0, w - 1)
    y1, x1 = (y0 + 1).clip(None, h - 1), (x0 + 1).clip(None, w - 1)
    upper = (1 - fx) * image[y0, x0] + fx * image[y0, x1]
    lower = (1 - fx) * image[y1, x0] + fx * image[y1, x1]
    return (1 - fy) * upper + fy * lower


def deformable_conv(a, s):
    """The gathered image is the matrix of one product; channels are read together."""
    h, w = s["h"], s["w"]
    x, off, k = a["x"].transpose(1, 2, 0), a["off"].transpose(2, 3, 0, 1), jnp.arange(9)
    py = (jnp.arange(h)[:, None, None] + k // 3 - 1 + off[..., 0]).clip(0, h - 1.001)
    px = (jnp.arange(w)[:, None] + k % 3 - 1 + off[..., 1]).clip(0, w - 1.001)
    iy, ix = py.astype(jnp.int32), px.astype(jnp.int32)
    fy, fx = (py - iy)[..., None], (px - ix)[..., None]
    upper = (1 - fx) * x[iy, ix] + fx * x[iy, ix + 1]
    lower = (1 - fx) * x[iy + 1, ix] + fx * x[iy + 1, ix + 1]
    columns = ((1 - fy) * upper + fy * lower).reshape(h * w, -1)
    return (columns @ a["wt"].transpose(2, 1, 0).reshape(-1, s["co"])).T.reshape(-1, h, w)


def solve_tridiagonal(lo, di, up, f):
    """Systems along the first axis. On a CPU elimination of all at once is faster than the library's solver."""
    if jax.default_backend() != "cpu":
        lo, di, up, f = (m.T for m in (lo, di, up, f))
        return tridiagonal_solve(lo.at[:, 0].set(0), di, up.at[:, -1].set(0), f[..., None])[..., 0].T

    def eliminate(above, row):
        (c, d), (lo, di, up, f) = above, row
        pivot = 1 / (di - lo * c)
        now = up * pivot, (f - lo * d) * pivot
        return now, now

    def substitute(x, row):
        x = row[1] - row[0] * x
        return x, x

    zeros = jnp.zeros_like(f[0])
    _, rows = jax.lax.scan(eliminate, (zeros, zeros), (lo, di, up, f))
    return jax.lax.scan(substitute, zeros, rows, reverse=True)[1]


def tridiagonal(a, s):
    return solve_tridiagonal(a["lo"], 3 + a["di"], a["up"], a["f"])


def adi(a, s):
    def solve(u, d):
        side = 0.2 + 0.1 * d * d
        return solve_tridiagonal(-side, 1 + 2 * side, -side, u)

    def step(u, _):
        return solve(solve(u.T, a["d"].T).T, a["d"]), None

    return jax.lax.scan(step, a["u"], None, s["t"])[0]


def packed_cholesky(a, s):
    rows, columns = jnp.tril_indices(s["n"])
    lower = jnp.zeros((s["n"], s["n"]), a["a"].dtype).at[rows, columns].set(a["a"])
    root = jnp.linalg.cholesky(lower + jnp.tril(lower, -1).T)
    x = jax.scipy.linalg.solve_triangular(root, a["b"], lower=True)
    return {"a": root[rows, columns], "x": x, "logdet": 2 * jnp.log(jnp.diag(root)).sum()}


def table_lookup(a, s):
    u = (jnp.sin(a["x"]) * 0.4999 + 0.5) * (s["len"] - 1)
    low = jnp.floor(u).astype(jnp.int32)
    f = u - low
    return (1 - f) * a["table"][a["which"], low] + f * a["table"][a["which"], low + 1]


PROGRAMS = {
    "gray_scott": gray_scott,
    "lattice_boltzmann": lattice_boltzmann,
    "bilateral": bilateral,
    "image_warp": image_warp,
    "deformable_conv": deformable_conv,
    "tridiagonal": tridiagonal,
    "adi": adi,
    "packed_cholesky": packed_cholesky,
    "table_lookup": table_lookup,
}

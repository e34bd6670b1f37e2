"""Programs of bench/fields over sequences, tables of dynamic programming and paths in JAX, each as its users would write
it: loops over time by `lax.scan`, tables by their anti-diagonals, everything else in arrays. A step is computed again in
the backward sweep (`jax.checkpoint`) where that is faster than keeping what it computed."""

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

NEVER = -1e30  # the logarithm of nothing


def shifted(x, by, fill):
    """x[..., i - by], and `fill` before the first one."""
    return jnp.concatenate([jnp.full((*x.shape[:-1], by), fill, x.dtype), x[..., :-by]], -1)


def ctc(a, s):
    """The lattice of blanks and labels, one step of time after the other."""
    blanks = jnp.zeros((s["batch"], 2 * s["l"] + 1), jnp.int32)
    state = blanks.at[:, 1::2].set(a["label"])
    skips = (state != 0) & (state != shifted(state, 2, 0)) & (jnp.arange(2 * s["l"] + 1) >= 3)
    emit = jnp.take_along_axis(a["logit"], state[:, None], 2).transpose(1, 0, 2)  # time, batch, state
    start = jnp.full(state.shape, -50.0, emit.dtype).at[:, :2].set(emit[0, :, :2])

    def step(alpha, emit):
        two = jnp.where(skips, shifted(alpha, 2, NEVER), NEVER)
        return logsumexp(jnp.stack([alpha, shifted(alpha, 1, NEVER), two]), 0) + emit, None

    alpha, _ = jax.lax.scan(step, start, emit[1:])
    return -jnp.logaddexp(alpha[:, -1], alpha[:, -2])


def diagonals(table):
    """The anti-diagonals of a table: [d, i] is table[i, d - i], or 0 outside of it."""
    n, m = table.shape
    return jnp.pad(table, ((0, 0), (0, n))).ravel()[: n * (n + m - 1)].reshape(n, n + m - 1).T


def smith_waterman(a, s):
    n, m = s["n"], s["m"]
    first, second = jax.nn.one_hot(a["a"], s["k"]), jax.nn.one_hot(a["b"], s["k"])
    fits = diagonals(first @ a["table"] @ second.T)
    inside = diagonals(jnp.ones((n, m), bool))

    def step(carry, row):
        before, last, score = carry  # h[i, d - 2 - i] and h[i, d - 1 - i], i from 1 on
        fit, inside = row
        above = jnp.exp(shifted(last, 1, 0) - a["gap"])
        h = 0.5 * jnp.log(1 + jnp.exp(shifted(before, 1, 0) + fit) + above + jnp.exp(last - a["gap"]))
        h = jnp.where(inside, h, 0)
        return (last, h, score + 0.01 * (h * h).sum()), None

    zeros = jnp.zeros(n, fits.dtype)
    return jax.lax.scan(step, (zeros, zeros, jnp.zeros((), fits.dtype)), (fits, inside))[0][2]


def soft_dtw(a, s):
    """One value for each offset i - j of the band, the newest; an anti-diagonal renews every other one."""
    n, w = s["n"], s["w"]
    offset = jnp.arange(-w, w + 1)
    twice = jnp.arange(2, 2 * n + 1)[:, None]
    i, j = (twice + offset) // 2 - 1, (twice - offset) // 2 - 1
    cost = (a["x"][:, i.clip(0, n - 1)] - a["y"][:, j.clip(0, n - 1)]) ** 2  # batch, diagonal, offset
    renewed = ((twice + offset) % 2 == 0) & (i >= 0) & (i < n) & (j >= 0) & (j < n)

    def step(d, row):
        cost, renewed = row
        p = jnp.pad(d, ((0, 0), (1, 1)), constant_values=1000.0)
        least = -logsumexp(-jnp.stack([p[:, :-2], p[:, 2:], d]), 0)
        return jnp.where(renewed, cost + least, d), None

    start = jnp.full((s["batch"], 2 * w + 1), 1000.0, cost.dtype).at[:, w].set(0)
    return jax.lax.scan(step, start, (cost.transpose(1, 0, 2), renewed))[0][:, w]


def kalman(a, s):
    """One track; the covariances are the same for all, and vmap leaves them so."""
    f, noise = a["f"], jnp.diag(a["noise"] ** 2)

    def step(carry, z):
        x, cov, cost = carry
        ahead, pred = f @ x, f @ cov @ f.T + noise
        innovation, variance = z - ahead[0], pred[0, 0] + a["r"] ** 2 + 0.1
        gain = pred[:, 0] / variance
        cost = cost + innovation * innovation / variance + jnp.log(variance)
        return (ahead + gain * innovation, pred - jnp.outer(gain, pred[0]), cost), None

    def track(z):
        start = (jnp.zeros(4, z.dtype), jnp.eye(4, dtype=z.dtype), jnp.zeros((), z.dtype))
        return jax.lax.scan(step, start, z)[0][2]

    return jax.vmap(track)(a["z"])


def hmm(a, s):
    emit = a["emit"].T[a["seen"].T]  # time, batch, state
    move = jnp.exp(a["move"])

    def step(alpha, emit):
        top = jax.lax.stop_gradient(alpha.max(1, keepdims=True))
        return top + jnp.log(jnp.exp(alpha - top) @ move) + emit, None

    return logsumexp(jax.lax.scan(step, emit[0], emit[1:])[0], 1)


def state_space(a, s):
    step = jax.nn.softplus(a["delta"])
    rate = jnp.exp(a["a"])
    if jax.default_backend() == "cpu":  # the state stays in the cache

        def advance(h, now):
            step, b, x, out = now
            h = jnp.exp(-step[:, None] * rate) * h + (step * x)[:, None] * b
            return h, h @ out

        start = jnp.zeros(rate.shape, step.dtype)
        return jax.lax.scan(advance, start, (step, a["b"], a["x"], a["out"]))[1]

    def joined(first, second):
        return first[0] * second[0], first[1] * second[0] + second[1]

    decay = jnp.exp(-step[:, :, None] * rate)
    h = jax.lax.associative_scan(joined, (decay, (step * a["x"])[:, :, None] * a["b"][:, None]))[1]
    return jnp.einsum("tcs,ts->tc", h, a["out"])


def read_at(row, at):
    """Linear interpolation of a row, with nodes beyond the ends at the ends. On a GPU products with weights are faster
    than sums into few nodes."""
    nodes = len(row)
    low = jnp.floor(jax.lax.stop_gradient(at)).astype(jnp.int32)
    f = at - low
    i, j = low.clip(0, nodes - 1), (low + 1).clip(0, nodes - 1)
    if jax.default_backend() == "cpu":
        return (1 - f) * row[i] + f * row[j]
    return ((1 - f)[:, None] * jax.nn.one_hot(i, nodes) + f[:, None] * jax.nn.one_hot(j, nodes)) @ row


def local_vol(a, s):
    steps = s["steps"]
    dt = 1 / steps
    rows = a["surface"][jnp.arange(steps) * s["times"] // steps]

    @jax.checkpoint
    def step(carry, now):
        x, alive, mean = carry
        z, row = now
        sigma = 0.2 * jnp.exp(read_at(row, (x + 1) * 0.5 * (s["nodes"] - 1)))
        x = x + (0.02 * a["rate"] - 0.5 * sigma * sigma) * dt + sigma * dt**0.5 * 1.7 * z
        alive = jnp.where(x > 0.8, alive * jnp.exp(-4 * (x - 0.8)), alive)
        return (x, alive, mean + jnp.exp(x) * dt), None

    zeros = jnp.zeros(s["paths"], a["z"].dtype)
    (_, alive, mean), _ = jax.lax.scan(step, (zeros, zeros + 1, zeros), (a["z"].T, rows))
    return (alive * jax.nn.relu(mean - jnp.exp(0.1 * a["strike"])[:, None])).mean(1)


def american(a, s):
    """All nodes of a level at once; those beyond the level hold what nobody reads."""
    steps = s["steps"]
    dt = 1 / steps
    up = jnp.exp((0.3 + 0.1 * a["vol"]) * dt**0.5)[:, None]
    grow = jnp.exp((0.05 + 0.02 * a["rate"]) * dt)
    q = (grow - 1 / up) / (up - 1 / up)
    s0, k = 1 + 0.1 * a["spot"][:, None], 1 + 0.1 * a["strike"][:, None]
    highest = s0 * up ** (2 * jnp.arange(steps + 1))  # of a level, but for up**-t
    exercise = lambda t: k - highest * up**-t

    @jax.checkpoint
    def step(v, t):
        now, later = exercise(t), q / grow * jnp.roll(v, -1, 1) + (1 - q) / grow * v
        return jnp.where(now > later, now, later), None

    levels = jnp.arange(steps, dtype=highest.dtype)
    v, _ = jax.lax.scan(step, jax.nn.relu(exercise(steps)), levels[:0:-1])
    delta = (v[:, 1] - v[:, 0]) / (s0 * (up - 1 / up))[:, 0]
    return {"price": step(v, levels[0])[0][:, 0], "delta": delta}


PROGRAMS = {
    "ctc": ctc,
    "smith_waterman": smith_waterman,
    "soft_dtw": soft_dtw,
    "kalman": kalman,
    "hmm": hmm,
    "state_space": state_space,
    "local_vol": local_vol,
    "american": american,
}

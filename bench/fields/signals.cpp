// Sound, radio and ultrasound.
#include <loopgrad/small.h>

#include "bench/fields/fields.h"
#include "tools/support/random.h"

namespace loopgrad::fields {
namespace {

/// Plucked strings: delay lines of lengths of their own, read and written in place, mixed to two channels.
Program plucked_strings() {
  ProgramBuilder p("plucked_strings");
  auto s = p.size("s"), most = p.size("most"), t = p.size("t");
  auto period = p.input<int>("period", {s});
  p.in_range(period, 2, most + 1);
  auto pluck = p.input<float>("pluck", {s, most}), damping = p.input<float>("damping", {s}),
       pan = p.input<float>("pan", {s});
  auto out = p.output<float>("out", {t, 2});
  auto line = p.local<float>("line", {s, most});
  for (auto [i, k] : p.loop({"i", s}, {"k", most})) line(i, k) = pluck(i, k);
  for (auto n : p.loop("n", t)) {
    out(n, 0) = 0.0f;
    out(n, 1) = 0.0f;
    for (auto i : p.loop("i1", s)) {
      auto here = p.let("here", n % period(i)), next = p.let("next", (n + 1) % period(i));
      auto y = p.let("y", line(i, here));
      line(i, here) = (0.99f - 0.05f * abs(damping(i))) * 0.5f * (y + line(i, next));
      out(n, 0) += y * (1.0f + pan(i));
      out(n, 1) += y * (1.0f - pan(i));
    }
  }
  return p.build();
}

/// A reverberator: delay lines behind each other in one memory, each with a low pass, mixed by a reflection.
Program reverberator() {
  ProgramBuilder p("reverberator");
  auto lines = p.size("lines"), total = p.size("total"), t = p.size("t");
  auto start = p.input<int>("start", {lines + 1});
  p.csr(start, total);
  auto x = p.input<float>("x", {t}), feed = p.input<float>("feed", {lines}), tap = p.input<float>("tap", {lines}),
       cutoff = p.input<float>("cutoff", {lines});
  auto y = p.output<float>("y", {t});
  auto memory = p.local<float>("memory", {total}), low = p.local<float>("low", {lines});
  for (auto i : p.loop("i", total)) memory(i) = 0.0f;
  for (auto l : p.loop("l", lines)) low(l) = 0.0f;
  for (auto n : p.loop("n", t)) {
    auto mean = p.scalar<float>("mean", 0), wet = p.scalar<float>("wet", 0);
    for (auto l : p.loop("l1", lines)) {
      auto length = start(l + 1) - start(l);
      p.when(length > 0, [&] {
        low(l) += (0.5f + 0.4f * cutoff(l)) * (memory(start(l) + n % length) - low(l));
        mean += low(l);
        wet += tap(l) * low(l);
      });
    }
    mean *= 2.0f / cast<float>(lines);
    for (auto l : p.loop("l2", lines)) {
      auto length = start(l + 1) - start(l);
      p.when(length > 0, [&] { memory(start(l) + n % length) = feed(l) * x(n) + 0.9f * (low(l) - mean); });
    }
    y(n) = x(n) + wet;
  }
  return p.build();
}

/// Pitch by differences of frames with themselves, later: the first lag whose normalised difference is small, refined.
Program pitch_of_frames() {
  ProgramBuilder p("pitch_of_frames");
  auto frames = p.size("frames"), hop = p.size("hop"), w = p.size("w"), lags = p.size("lags");
  auto x = p.input<float>("x", {frames * hop + w + lags});
  auto pitch = p.output<float>("pitch", {frames}), clarity = p.output<float>("clarity", {frames});
  for (auto f : p.loop("f", frames)) {
    auto d = p.local<float>("d", {lags});
    auto sum = p.scalar<float>("sum", 0);
    d(0) = 1.0f;
    for (auto lag : p.loop("lag", 1, lags)) {
      auto s = p.scalar<float>("s", 1e-3f);
      for (auto k : p.loop("k", w)) {
        auto e = x(f * hop + k) - x(f * hop + k + lag);
        s += e * e;
      }
      sum += s;
      d(lag) = s * cast<float>(lag) / sum;
    }
    auto best = p.scalar<std::int64_t>("best", 1);
    auto found = p.scalar<bool>("found", false);
    for (auto lag : p.loop_while("lag1", lags - 2, [&](auto) { return !found; }))
      p.when(d(lag + 1) < 0.95f && d(lag + 1) < d(lag + 2), [&] {
        best = lag + 1;
        found = true;
      });
    auto a = p.let("a", d(best - 1)), b = p.let("b", d(best)), c = p.let("c", d(best + 1));
    pitch(f) = cast<float>(best) + 0.5f * (a - c) / (abs(a - 2.0f * b + c) + 0.1f);
    clarity(f) = 1.0f - b;
  }
  return p.build();
}

/// Noise out of speech: windowed frames, their spectra, gains against a noise floor that follows, and overlapped back.
Program denoiser() {
  ProgramBuilder p("denoiser");
  auto frames = p.size("frames"), hop = p.size("hop"), bins = p.size("bins");
  auto w = 2 * hop;
  auto x = p.input<float>("x", {(frames + 1) * hop}), floor0 = p.input<float>("floor0", {bins}),
       rate = p.input<float>("rate", {});
  auto y = p.output<float>("y", {(frames + 1) * hop});
  auto window = p.local<float>("window", {w});
  auto noise = p.local<float>("noise", {bins});
  for (auto k : p.loop("k", w)) window(k) = sin(3.14159265f * (cast<float>(k) + 0.5f) / cast<float>(w));
  for (auto b : p.loop("b", bins)) noise(b) = floor0(b) * floor0(b) + 0.1f;
  for (auto i : p.loop("i", (frames + 1) * hop)) y(i) = 0.0f;
  for (auto f : p.loop("f", frames))
    for (auto b : p.loop("b1", bins)) {
      auto re = p.scalar<float>("re", 0), im = p.scalar<float>("im", 0);
      auto angle = [&](const Value& k) { return 6.2831853f * cast<float>((b * k) % w) / cast<float>(w); };
      for (auto k : p.loop("k1", w)) {
        auto v = p.let("v", window(k) * x(f * hop + k));
        re += v * cos(angle(k));
        im -= v * sin(angle(k));
      }
      auto power = p.let("power", re * re + im * im);
      p.when(power < noise(b), [&] { noise(b) += 0.3f * (power - noise(b)); }).otherwise([&] {
        noise(b) += (0.02f + 0.01f * rate()) * (power - noise(b));
      });
      auto gain = p.let("gain", max(power / (power + noise(b)), 0.05f));
      for (auto k : p.loop("k2", w))
        y(f * hop + k) += gain * window(k) * (re * cos(angle(k)) - im * sin(angle(k))) / cast<float>(hop);
    }
  return p.build();
}

/// A phase vocoder: magnitudes between frames at a rate that is learned, phases that add up what they turned by.
Program stretched_sound() {
  ProgramBuilder p("stretched_sound");
  auto frames = p.size("frames"), bins = p.size("bins"), out = p.size("out");
  auto size = p.input<float>("size", {frames, bins}), angle = p.input<float>("angle", {frames, bins}),
       rate = p.input<float>("rate", {});
  auto re = p.output<float>("re", {out, bins}), im = p.output<float>("im", {out, bins});
  auto phase = p.local<float>("phase", {bins});
  for (auto b : p.loop("b", bins)) phase(b) = angle(0, b);
  for (auto k : p.loop("k", out)) {
    auto at = p.let("at", min(cast<float>(k) * (0.6f + 0.1f * rate()), cast<float>(frames) - 1.001f));
    auto left = p.let("left", cast<std::int64_t>(at));
    auto part = p.let("part", at - cast<float>(left));
    for (auto b : p.loop("b1", bins)) {
      auto m = p.let("m", (1.0f - part) * size(left, b) + part * size(left + 1, b));
      re(k, b) = m * cos(phase(b));
      im(k, b) = m * sin(phase(b));
      auto expected = 0.4f * cast<float>(b);
      auto turn = p.let("turn", angle(left + 1, b) - angle(left, b) - expected);
      phase(b) += expected + turn - 6.2831853f * floor(turn / 6.2831853f + 0.5f);
    }
  }
  return p.build();
}

/// A compressor that looks ahead: the loudest of what comes, attack and release, a knee, both channels by one gain.
Program compressor() {
  ProgramBuilder p("compressor");
  auto t = p.size("t"), ahead = p.size("ahead");
  auto x = p.input<float>("x", {2, t + ahead}), threshold = p.input<float>("threshold", {}),
       ratio = p.input<float>("ratio", {}), attack = p.input<float>("attack", {}),
       release = p.input<float>("release", {});
  auto y = p.output<float>("y", {2, t}), reduction = p.output<float>("reduction", {});
  auto level = p.scalar<float>("level", -60.0f);
  reduction() = 0.0f;
  for (auto n : p.loop("n", t)) {
    auto peak = p.scalar<float>("peak", 1e-3f);
    for (auto [c, k] : p.loop({"c", 2}, {"k", ahead})) peak.max_with(abs(x(c, n + k)));
    auto db = p.let("db", 8.685889638f * log(peak));
    p.when(db > level, [&] { level += (0.2f + 0.1f * attack()) * (db - level); }).otherwise([&] {
      level += (0.02f + 0.01f * release()) * (db - level);
    });
    auto over = p.let("over", level - (-10.0f + threshold()));
    auto slope = 0.6f + 0.2f * ratio();
    auto cut = p.scalar<float>("cut");
    p.when(over > 3.0f, [&] { cut = slope * over; })
        .otherwise(over > -3.0f, [&] { cut = slope * (over + 3.0f) * (over + 3.0f) / 12.0f; })
        .otherwise([&] { cut = 0.0f; });
    for (auto c : p.loop("c1", 2)) y(c, n) = x(c, n) * exp(-0.1151292546f * cut);
    reduction() += cut / cast<float>(t);
  }
  return p.build();
}

/// A parity check code: signs and the two smallest messages of each check, until all checks hold.
Program parity_code() {
  ProgramBuilder p("parity_code");
  auto n = p.size("n"), m = p.size("m"), edges = p.size("edges"), rounds = p.size("rounds"), words = p.size("words");
  auto row = p.input<int>("row", {m + 1}), bit = p.input<int>("bit", {edges});
  p.csr(row, edges), p.in_range(bit, 0, n);
  auto channel = p.input<float>("channel", {words, n}), damp = p.input<float>("damp", {rounds});
  auto soft = p.output<float>("soft", {words, n});
  for (auto w : p.loop("w", words)) {
    auto message = p.local<float>("message", {edges});
    auto wrong = p.scalar<std::int64_t>("wrong", 1);
    for (auto e : p.loop("e", edges)) message(e) = 0.0f;
    for (auto v : p.loop("v", n)) soft(w, v) = channel(w, v);
    for (auto r : p.loop_while("r", rounds, [&](auto) { return wrong > 0; })) {
      wrong = 0;
      for (auto c : p.loop("c", m)) {
        auto first = p.scalar<float>("first", 1e3f), second = p.scalar<float>("second", 1e3f),
             sign = p.scalar<float>("sign", 1.0f);
        auto at = p.scalar<int>("at", -1);
        for (auto e : p.loop("e1", row(c), row(c + 1))) {
          auto q = p.let("q", soft(w, bit(e)) - message(e));
          p.when(q < 0, [&] { sign = -1.0f * sign; });
          p.when(abs(q) < first, [&] {
             second = first;
             first = abs(q);
             at = cast<int>(e);
           }).otherwise(abs(q) < second, [&] { second = abs(q); });
        }
        for (auto e : p.loop("e2", row(c), row(c + 1))) {
          auto q = p.let("q", soft(w, bit(e)) - message(e));
          auto size = select(e == at, second, first);
          auto now = p.let("now", (0.75f + 0.1f * damp(r)) * min(size, 5.0f) * select(q < 0, -1.0f * sign, sign));
          soft(w, bit(e)) += now - message(e);
          message(e) = now;
        }
        p.when(sign < 0, [&] { wrong += 1; });
      }
    }
  }
  return p.build();
}

/// One half of a turbo decoder: forward and backward over a trellis whose moves are tables, in logarithms.
void half_decoder(ProgramBuilder& p, const ArrayView& next, const ArrayView& parity, const ArrayView& systematic,
                  const ArrayView& check, const ArrayView& prior, const ArrayView& extrinsic, const Value& t,
                  const Value& s) {
  auto alpha = p.local<float>("alpha", {t + 1, s}), beta = p.local<float>("beta", {t + 1, s});
  auto metric = [&](const Value& k, const Value& state, const Value& u) {
    return select(u == 1, 0.5f, -0.5f) * (systematic(k) + prior(k)) +
           select(parity(state, u) == 1, 0.5f, -0.5f) * check(k);
  };
  for (auto j : p.loop("j", s)) {
    alpha(0, j) = select(j == 0, 0.0f, -10.0f);
    beta(t, j) = 0.0f;
  }
  for (auto k : p.loop("k", t)) {
    for (auto j : p.loop("j1", s)) alpha(k + 1, j) = -20.0f;
    for (auto [j, u] : p.loop({"j2", s}, {"u", 2})) {
      auto to = next(j, u);
      auto a = p.let("a", alpha(k, j) + metric(k, j, u)), b = p.let("b", alpha(k + 1, to));
      alpha(k + 1, to) = max(a, b) + log1p(exp(-abs(a - b)));
    }
    auto base = p.let("base", alpha(k + 1, 0));
    for (auto j : p.loop("j3", s)) alpha(k + 1, j) -= base;
  }
  for (auto k : p.loop("k1", t, {.descending = true}))
    for (auto j : p.loop("j4", s)) {
      auto a = p.let("a", beta(k + 1, next(j, 0)) + metric(k, j, 0)),
           b = p.let("b", beta(k + 1, next(j, 1)) + metric(k, j, 1));
      beta(k, j) = max(a, b) + log1p(exp(-abs(a - b))) - 0.5f;
    }
  for (auto k : p.loop("k2", t)) {
    auto one = p.scalar<float>("one", 0), zero = p.scalar<float>("zero", 0);
    for (auto j : p.loop("j5", s)) {
      one += exp(alpha(k, j) + metric(k, j, 1) + beta(k + 1, next(j, 1)) - beta(k, 0));
      zero += exp(alpha(k, j) + metric(k, j, 0) + beta(k + 1, next(j, 0)) - beta(k, 0));
    }
    extrinsic(k) = log(one) - log(zero) - systematic(k) - prior(k);
  }
}

/// Turbo codes: two decoders that tell each other what they think, through an interleaver.
Program turbo_code() {
  ProgramBuilder p("turbo_code");
  auto words = p.size("words"), t = p.size("t"), s = p.size("s"), rounds = p.size("rounds");
  auto next = p.input<int>("next", {s, 2}), parity = p.input<int>("parity", {s, 2}), mixed = p.input<int>("mixed", {t});
  p.in_range(next, 0, s), p.in_range(parity, 0, 2), p.in_range(mixed, 0, t), p.injective(mixed);
  auto seen = p.input<float>("seen", {words, t}), check1 = p.input<float>("check1", {words, t}),
       check2 = p.input<float>("check2", {words, t});
  auto belief = p.output<float>("belief", {words, t});
  for (auto w : p.loop("w", words)) {
    auto prior = p.local<float>("prior", {t}), out = p.local<float>("out", {t}), turned = p.local<float>("turned", {t}),
         back = p.local<float>("back", {t});
    for (auto k : p.loop("k", t)) {
      prior(k) = 0.0f;
      turned(k) = seen(w, mixed(k));
    }
    for (auto r : p.loop("r", rounds)) {
      (void)r;
      half_decoder(p, next, parity, seen.row(w), check1.row(w), prior, out, t, s);
      for (auto k : p.loop("k3", t)) back(k) = out(mixed(k));
      half_decoder(p, next, parity, turned, check2.row(w), back, out, t, s);
      for (auto k : p.loop("k4", t)) prior(mixed(k)) = out(k);
    }
    for (auto k : p.loop("k5", t)) belief(w, k) = tanh(0.5f * (seen(w, k) + prior(k)));
  }
  return p.build();
}

/// An equaliser: complex taps that follow the error of decisions, in place, sample by sample, on several antennas.
Program equaliser() {
  ProgramBuilder p("equaliser");
  auto a = p.size("a"), t = p.size("t"), taps = p.size("taps");
  auto x = p.input<float>("x", {a, t + taps, 2}), w0 = p.input<float>("w0", {a, taps, 2}),
       step = p.input<float>("step", {a});
  auto y = p.output<float>("y", {a, t, 2}), loss = p.output<float>("loss", {a});
  for (auto i : p.loop("i", a)) {
    auto w = p.local<float>("w", {taps, 2});
    for (auto k : p.loop("k", taps)) store(w.row(k), load<2>(w0.row(i).row(k)) * 0.2f);
    loss(i) = 0.0f;
    for (auto n : p.loop("n", t)) {
      auto sum_re = p.scalar<float>("sum_re", 0), sum_im = p.scalar<float>("sum_im", 0);
      auto power = p.scalar<float>("power", 0.1f);
      for (auto k : p.loop("k1", taps)) {
        const Complex product = conj(Complex(w(k, 0), w(k, 1))) * Complex(x(i, n + k, 0), x(i, n + k, 1));
        sum_re += product.re;
        sum_im += product.im;
        power += norm(Complex(x(i, n + k, 0), x(i, n + k, 1)));
      }
      y(i, n, 0) = sum_re;
      y(i, n, 1) = sum_im;
      auto wanted_re = select(sum_re > 0, 0.7071f, -0.7071f), wanted_im = select(sum_im > 0, 0.7071f, -0.7071f);
      const Complex e = p.let("e", Complex(wanted_re - sum_re, wanted_im - sum_im));
      loss(i) += norm(e) / cast<float>(t);
      auto mu = p.let("mu", (0.1f + 0.05f * step(i)) / power);
      for (auto k : p.loop("k2", taps)) {
        const Complex change = conj(e) * Complex(x(i, n + k, 0), x(i, n + k, 1));
        w(k, 0) += mu * change.re;
        w(k, 1) += mu * change.im;
      }
    }
  }
  return p.build();
}

/// Ultrasound: delays from every element to every pixel, samples between two, those elements that see the pixel.
Program beamformer() {
  ProgramBuilder p("beamformer");
  auto nz = p.size("nz"), nx = p.size("nx"), elements = p.size("elements"), samples = p.size("samples");
  auto rf = p.input<float>("rf", {elements, samples}), speed = p.input<float>("speed", {nz}),
       weight = p.input<float>("weight", {elements});
  auto image = p.output<float>("image", {nz, nx});
  for (auto [i, j] : p.loop({"i", nz}, {"j", nx})) {
    auto sum = p.scalar<float>("sum", 0), seen = p.scalar<float>("seen", 0.01f);
    auto z = p.let("z", (cast<float>(i) + 5.0f) / cast<float>(nz));
    for (auto e : p.loop("e", elements)) {
      auto dx = p.let("dx", cast<float>(j) / cast<float>(nx) - cast<float>(e) / cast<float>(elements));
      p.when(abs(dx) < 0.4f * z, [&] {
        auto way = z + sqrt(z * z + dx * dx);
        auto at = p.let("at", way * (0.35f + 0.02f * speed(i)) * cast<float>(samples));
        auto k = p.let("k", cast<std::int64_t>(at));
        p.when(k + 1 < samples, [&] {
          auto part = at - cast<float>(k);
          auto window = p.let("window", (1.0f + 0.3f * weight(e)) * (1.0f - dx * dx / (0.16f * z * z)));
          sum += window * ((1.0f - part) * rf(e, k) + part * rf(e, k + 1));
          seen += window;
        });
      });
    }
    image(i, j) = log1p((sum / seen) * (sum / seen) * 10.0f);
  }
  return p.build();
}

}  // namespace

std::vector<Field> signals() {
  return {
      {{"plucked_strings", "", plucked_strings, {{"s", 23}, {"most", 601}, {"t", 30011}}},
       {{{"s", 2}, {"most", 5}, {"t", 13}}, {{"s", 1}, {"most", 2}, {"t", 3}}}},
      {{"reverberator", "", reverberator, {{"lines", 13}, {"total", 17011}, {"t", 50021}}},
       {{{"lines", 3}, {"total", 9}, {"t", 11}}, {{"lines", 1}, {"total", 2}, {"t", 5}}}},
      {{"pitch_of_frames", "", pitch_of_frames, {{"frames", 301}, {"hop", 111}, {"w", 203}, {"lags", 151}}},
       {{{"frames", 3}, {"hop", 2}, {"w", 5}, {"lags", 6}}, {{"frames", 1}, {"hop", 1}, {"w", 1}, {"lags", 3}}}},
      {{"denoiser", "", denoiser, {{"frames", 99}, {"hop", 90}, {"bins", 91}}},
       {{{"frames", 4}, {"hop", 3}, {"bins", 4}}, {{"frames", 1}, {"hop", 1}, {"bins", 2}}}},
      {{"stretched_sound", "", stretched_sound, {{"frames", 401}, {"bins", 513}, {"out", 603}}},
       {{{"frames", 5}, {"bins", 3}, {"out", 9}}, {{"frames", 2}, {"bins", 1}, {"out", 3}}}},
      {{"compressor", "", compressor, {{"t", 100003}, {"ahead", 37}}},
       {{{"t", 13}, {"ahead", 4}}, {{"t", 1}, {"ahead", 1}}}},
      {{"parity_code", "", parity_code, {{"n", 2003}, {"m", 1001}, {"edges", 6011}, {"rounds", 12}, {"words", 21}}},
       {{{"n", 6}, {"m", 3}, {"edges", 9}, {"rounds", 4}, {"words", 2}},
        {{"n", 1}, {"m", 1}, {"edges", 1}, {"rounds", 1}, {"words", 1}}}},
      {{"turbo_code", "", turbo_code, {{"words", 9}, {"t", 501}, {"s", 8}, {"rounds", 3}}},
       {{{"words", 2}, {"t", 5}, {"s", 3}, {"rounds", 2}}, {{"words", 1}, {"t", 1}, {"s", 1}, {"rounds", 1}}}},
      {{"equaliser", "", equaliser, {{"a", 7}, {"t", 10007}, {"taps", 21}}},
       {{{"a", 2}, {"t", 6}, {"taps", 3}}, {{"a", 1}, {"t", 1}, {"taps", 1}}}},
      {{"beamformer", "", beamformer, {{"nz", 151}, {"nx", 201}, {"elements", 63}, {"samples", 1501}}},
       {{{"nz", 4}, {"nx", 5}, {"elements", 6}, {"samples", 11}},
        {{"nz", 1}, {"nx", 1}, {"elements", 1}, {"samples", 3}}}},
  };
}

}  // namespace loopgrad::fields

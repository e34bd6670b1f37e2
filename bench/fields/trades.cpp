// Power, water, money and stocks.
#include "bench/fields/fields.h"
#include "tools/support/random.h"

namespace loopgrad::fields {
namespace {

/// The value of a table of `n` places at `at` in 0..1, between two of them.
Value looked_up(const ArrayView& table, const Value& n, const Value& at) {
  auto x = min(max(at, 0.0), 0.9999) * cast<double>(n - 1);
  auto k = cast<std::int64_t>(x);
  return table(k) + (x - cast<double>(k)) * (table(k + 1) - table(k));
}

/// A curve of rates: each instrument pays at times of its own, its last discount is found by Newton's steps given the
/// earlier ones, which payments in between see by interpolation of logarithms.
Program rate_curve() {
  ProgramBuilder p("rate_curve");
  auto curves = p.size("curves"), m = p.size("m"), pays = p.size("pays");
  auto row = p.input<int>("row", {m + 1});
  p.csr(row, pays);
  auto quote = p.input<double>("quote", {curves, m}), late = p.input<double>("late", {pays});
  auto rate = p.output<double>("rate", {curves, m + 1});
  auto repriced = p.output<double>("repriced", {curves});
  for (auto c : p.loop("c", curves)) {
    auto ln = p.local<double>("ln", {m + 1});
    ln(0) = 0.0;
    repriced(c) = 0.0;
    rate(c, 0) = 0.02 + 0.001 * quote(c, 0);
    for (auto i : p.loop("i", m)) {
      auto coupon = p.let("coupon", 0.03 + 0.01 * quote(c, i));
      auto guess = p.scalar<double>("guess"), error = p.scalar<double>("error", 1.0);
      guess = ln(i) - 0.02;
      for (auto k : p.loop_while("k", 12, [&](auto) { return abs(error) > 1e-9; })) {
        (void)k;
        auto slope = p.scalar<double>("slope");
        error = exp(guess) - 1.0;
        slope = exp(guess);
        for (auto q : p.loop("q", row(i), row(i + 1))) {
          auto at = p.let("at", (cast<double>(q - row(i)) + 0.5 + 0.3 * late(q)) / cast<double>(row(i + 1) - row(i)) *
                                    cast<double>(i + 1));
          auto left = p.let("left", min(max(cast<std::int64_t>(at), 0), i));
          auto part = p.let("part", at - cast<double>(left));
          p.when(left == i, [&] {
             auto d = p.let("d", exp(ln(left) + part * (guess - ln(left))));
             error += coupon * d;
             slope += coupon * part * d;
           }).otherwise([&] { error += coupon * exp(ln(left) + part * (ln(left + 1) - ln(left))); });
        }
        guess -= error / slope;
      }
      ln(i + 1) = guess;
      rate(c, i + 1) = -1.0 * guess / cast<double>(i + 1);
      repriced(c) += error * error;
    }
  }
  return p.build();
}

/// Early exercise by regression: backwards in time, a small least-squares fit over those paths that are in the money.
Program regressed_exercise() {
  ProgramBuilder p("regressed_exercise");
  auto n = p.size("n"), t = p.size("t");
  auto noise = p.input<float>("noise", {t, n}), vol = p.input<float>("vol", {t}), strike = p.input<float>("strike", {});
  auto price = p.output<double>("price", {}), early = p.output<double>("early", {t});
  auto s = p.local<float>("s", {t + 1, n});
  auto cash = p.local<double>("cash", {n});
  for (auto i : p.loop("i", n)) s(0, i) = 1.0f;
  for (auto [k, i] : p.loop({"k", t}, {"i1", n})) {
    auto v = 0.1f + 0.02f * vol(k);
    s(k + 1, i) = s(k, i) * exp(v * noise(k, i) - 0.16f * v * v);
  }
  auto payoff = [&](const Value& k, const Value& i) { return max(1.05f + 0.05f * strike() - s(k, i), 0.0f); };
  for (auto i : p.loop("i2", n)) cash(i) = payoff(t, i);
  for (auto k : p.loop("k1", t, {.descending = true})) {
    early(k) = 0.0;
    auto a = p.local<double>("a", {3, 4});
    for (auto [r, c] : p.loop({"r", 3}, {"c", 4})) a(r, c) = select(r == c, 0.01, 0.0);
    for (auto i : p.loop("i3", n)) {
      cash(i) *= 0.995;
      p.when(payoff(k, i) > 0, [&] {
        auto x = p.let("x", cast<double>(s(k, i)) - 1.0);
        auto b = p.local<double>("b", {4});
        b(0) = 1.0;
        b(1) = x;
        b(2) = x * x;
        b(3) = cash(i);
        for (auto [r, c] : p.loop({"r1", 3}, {"c1", 4})) a(r, c) += b(r) * b(c);
      });
    }
    auto w = p.local<double>("w", {3});
    for (auto r : p.loop("r2", 3))
      for (auto q : p.loop("q", r + 1, 3)) {
        auto f = p.let("f", a(q, r) / a(r, r));
        for (auto c : p.loop("c2", r, 4)) a(q, c) -= f * a(r, c);
      }
    for (auto r : p.loop("r3", 3, {.descending = true})) {
      w(r) = a(r, 3);
      for (auto c : p.loop("c3", r + 1, 3)) w(r) -= a(r, c) * w(c);
      w(r) /= a(r, r);
    }
    for (auto i : p.loop("i4", n)) {
      auto x = p.let("x", cast<double>(s(k, i)) - 1.0);
      p.when(payoff(k, i) > 0 && cast<double>(payoff(k, i)) > w(0) + w(1) * x + w(2) * x * x, [&] {
        cash(i) = payoff(k, i);
        early(k) += cash(i) / cast<double>(n);
      });
    }
  }
  price() = 0.0;
  for (auto i : p.loop("i5", n)) price() += cash(i) / cast<double>(n);
  return p.build();
}

/// Claims of insurers: triangles of what was paid, factors from column to column, weighted, then the rest of the
/// square.
Program claim_triangles() {
  ProgramBuilder p("claim_triangles");
  auto lines = p.size("lines"), n = p.size("n");
  auto paid = p.input<double>("paid", {lines, n * (n + 1) / 2}), power = p.input<double>("power", {lines});
  auto reserve = p.output<double>("reserve", {lines, n}), risk = p.output<double>("risk", {lines});
  for (auto l : p.loop("l", lines)) {
    auto c = p.local<double>("c", {n, n}), factor = p.local<double>("factor", {n});
    auto at = p.scalar<std::int64_t>("at", 0);
    for (auto i : p.loop("i", n))
      for (auto j : p.loop("j", n - i)) {
        auto before = p.let("before", select(j > 0, c(i, max(j - 1, 0)), 0.0));
        c(i, j) = before + exp(paid(l, at) - 0.3 * cast<double>(j));
        at += 1;
      }
    risk(l) = 0.0;
    for (auto j : p.loop("j1", n - 1)) {
      auto above = p.scalar<double>("above", 0), below = p.scalar<double>("below", 0);
      for (auto i : p.loop("i1", n - 1 - j)) {
        auto w = p.let("w", pow(c(i, j), 1.0 + 0.2 * power(l)));
        above += w * c(i, j + 1) / c(i, j);
        below += w;
      }
      factor(j) = above / below;
      for (auto i : p.loop("i2", n - 1 - j)) {
        auto off = p.let("off", c(i, j + 1) / c(i, j) - factor(j));
        risk(l) += c(i, j) * off * off;
      }
    }
    for (auto i : p.loop("i3", n)) {
      for (auto j : p.loop("j2", n - i, n)) c(i, j) = c(i, j - 1) * factor(j - 1);
      reserve(l, i) = c(i, n - 1) - c(i, n - 1 - i);
    }
  }
  return p.build();
}

/// Parts of parts: needs go down the levels of assemblies, lots are rounded up softly, lead times shift them to
/// earlier.
Program parts_explosion() {
  ProgramBuilder p("parts_explosion");
  auto items = p.size("items"), links = p.size("links"), weeks = p.size("weeks");
  auto row = p.input<int>("row", {items + 1}), part = p.input<int>("part", {links}),
       lead = p.input<int>("lead", {items});
  p.csr(row, links), p.in_range(part, 0, items), p.in_range(lead, 0, 4);
  auto demand = p.input<float>("demand", {items, weeks}), each = p.input<float>("each", {links}),
       stock = p.input<float>("stock", {items}), lot = p.input<float>("lot", {items});
  auto cost = p.output<float>("cost", {items}), orders = p.output<float>("orders", {items, weeks});
  auto need = p.local<float>("need", {items, weeks});
  for (auto [i, w] : p.loop({"i", items}, {"w", weeks})) need(i, w) = 0.5f + 0.5f * demand(i, w);
  for (auto i : p.loop("i1", items)) {
    auto held = p.scalar<float>("held");
    auto size = p.let("size", 1.0f + 0.5f * lot(i));
    held = 1.0f + stock(i);
    cost(i) = 0.0f;
    for (auto w : p.loop("w1", weeks)) orders(i, w) = 0.0f;
    for (auto w : p.loop("w2", weeks)) {
      held -= need(i, w);
      p.when(held < 0, [&] {
        auto lots = p.let("lots", floor(-1.0f * held / size) + 1.0f);
        orders(i, max(w - lead(i), 0)) += lots * size;
        held += lots * size;
        cost(i) += 2.0f;
      });
      cost(i) += 0.1f * held;
    }
    for (auto e : p.loop("e", row(i), row(i + 1)))
      p.when(part(e) > i, [&] {
        for (auto w : p.loop("w3", weeks)) need(part(e), w) += (0.3f + 0.2f * each(e)) * orders(i, w);
      });
  }
  return p.build();
}

/// Wind farms: for each direction, turbines from the front to the back, wakes by roots of sums of squares, power by a
/// table.
Program wind_farm() {
  ProgramBuilder p("wind_farm");
  auto dirs = p.size("dirs"), n = p.size("n"), knots = p.size("knots"), speeds = p.size("speeds");
  auto order = p.input<int>("order", {dirs, n});
  p.in_range(order, 0, n);
  auto x = p.input<double>("x", {n}), y = p.input<double>("y", {n}), curve = p.input<double>("curve", {knots}),
       often = p.input<double>("often", {dirs, speeds});
  auto energy = p.output<double>("energy", {dirs}), lost = p.output<double>("lost", {n});
  for (auto i : p.loop("i0", n)) lost(i) = 0.0;
  for (auto d : p.loop("d", dirs)) {
    energy(d) = 0.0;
    auto co = p.let("co", cos(6.2831853 * cast<double>(d) / cast<double>(dirs))),
         si = p.let("si", sin(6.2831853 * cast<double>(d) / cast<double>(dirs)));
    for (auto s : p.loop("s", speeds)) {
      auto wind = p.local<double>("wind", {n});
      auto free = p.let("free", 0.2 + 0.7 * cast<double>(s) / cast<double>(speeds));
      for (auto a : p.loop("a", n)) {
        auto i = order(d, a);
        auto deficit = p.scalar<double>("deficit", 1e-4);
        for (auto b : p.loop("b", a)) {
          auto j = order(d, b);
          auto down = p.let("down", co * (x(i) - x(j)) + si * (y(i) - y(j))),
               across = p.let("across", co * (y(i) - y(j)) - si * (x(i) - x(j)));
          p.when(down > 0, [&] {
            auto width = p.let("width", 0.04 + 0.1 * down);
            auto loss =
                p.let("loss", 0.6 * wind(j) * 0.0016 / (width * width) * exp(-0.5 * across * across / (width * width)));
            deficit += loss * loss;
          });
        }
        wind(i) = max(free - sqrt(deficit), 0.02);
        auto made = p.let("made", looked_up(curve, knots, wind(i)));
        energy(d) += (1.0 + 0.5 * often(d, s)) * made;
        lost(i) += looked_up(curve, knots, free) - made;
      }
    }
  }
  return p.build();
}

/// Water pipes: flows around the loops of a network are balanced one loop after the other, until they hardly change.
Program pipe_loops() {
  ProgramBuilder p("pipe_loops");
  auto pipes = p.size("pipes"), loops = p.size("loops"), members = p.size("members"), rounds = p.size("rounds");
  auto row = p.input<int>("row", {loops + 1}), pipe = p.input<int>("pipe", {members}),
       way = p.input<int>("way", {members});
  p.csr(row, members), p.in_range(pipe, 0, pipes), p.in_range(way, 0, 2);
  auto flow0 = p.input<double>("flow0", {pipes}), rough = p.input<double>("rough", {pipes});
  auto flow = p.output<double>("flow", {pipes}), head = p.output<double>("head", {pipes});
  for (auto i : p.loop("i", pipes)) flow(i) = flow0(i);
  auto change = p.scalar<double>("change", 1.0);
  for (auto r : p.loop_while("r", rounds, [&](auto) { return change > 1e-4; })) {
    (void)r;
    change = 0.0;
    for (auto l : p.loop("l", loops)) {
      auto fall = p.scalar<double>("fall", 0), slope = p.scalar<double>("slope", 0.1);
      for (auto e : p.loop("e", row(l), row(l + 1))) {
        auto q = flow(pipe(e));
        auto sign = select(way(e) == 1, 1.0, -1.0);
        auto h = p.let("h", (1.0 + 0.5 * rough(pipe(e))) * pow(abs(q) + 1e-3, 0.852));
        fall += sign * h * q;
        slope += 1.852 * h;
      }
      auto shift = p.let("shift", -1.0 * fall / slope);
      for (auto e : p.loop("e1", row(l), row(l + 1))) flow(pipe(e)) += select(way(e) == 1, shift, -1.0 * shift);
      change.max_with(abs(shift));
    }
  }
  for (auto i : p.loop("i1", pipes)) head(i) = (1.0 + 0.5 * rough(i)) * flow(i) * abs(flow(i));
  return p.build();
}

/// Solar strings: each module's current by Newton's steps at shared voltages, the weakest of a string limits it.
Program solar_strings() {
  ProgramBuilder p("solar_strings");
  auto hours = p.size("hours"), strings = p.size("strings"), modules = p.size("modules"), volts = p.size("volts");
  auto light = p.input<float>("light", {hours, strings, modules}), heat = p.input<float>("heat", {hours}),
       series = p.input<float>("series", {strings, modules});
  auto power = p.output<float>("power", {hours}), best_at = p.output<float>("best_at", {hours});
  for (auto h : p.loop("h", hours)) {
    power(h) = -1.0f;
    best_at(h) = 0.0f;
    for (auto v : p.loop("v", volts)) {
      auto voltage = p.let("voltage", cast<float>(v + 1) / cast<float>(volts));
      auto sum = p.scalar<float>("sum", 0);
      for (auto s : p.loop("s", strings)) {
        auto weakest = p.scalar<float>("weakest", 1e3f);
        for (auto m : p.loop("m", modules)) {
          auto photo = p.let("photo", 0.7f + 0.3f * light(h, s, m)), r = p.let("r", 0.15f + 0.1f * series(s, m));
          auto i = p.scalar<float>("i");
          i = photo;
          for (auto k : p.loop("k", 4)) {
            (void)k;
            auto e = p.let("e", 0.002f * exp(5.5f * (voltage + i * r) * (1.0f - 0.05f * heat(h))));
            i -= (photo - e - i) / (-5.5f * r * e - 1.0f);
          }
          weakest.min_with(i);
        }
        sum += max(weakest, 0.0f);
      }
      p.when(sum * voltage > power(h), [&] {
        power(h) = sum * voltage;
        best_at(h) = voltage;
      });
    }
  }
  return p.build();
}

/// Batteries of houses under tiers of prices: charge, discharge or wait, with limits, losses and wear, hour by hour.
Program house_batteries() {
  ProgramBuilder p("house_batteries");
  auto homes = p.size("homes"), hours = p.size("hours");
  auto sun = p.input<float>("sun", {hours, homes}), use = p.input<float>("use", {hours, homes}),
       room = p.input<float>("room", {homes}), tariff = p.input<float>("tariff", {24, 3}),
       wear = p.input<float>("wear", {});
  auto bill = p.output<float>("bill", {homes}), peak = p.output<float>("peak", {homes});
  for (auto i : p.loop("i", homes)) {
    auto charge = p.scalar<float>("charge", 0.3f), health = p.scalar<float>("health", 1.0f),
         month = p.scalar<float>("month", 0);
    auto mode = p.scalar<int>("mode", 0);
    bill(i) = 0.0f;
    peak(i) = 0.0f;
    for (auto h : p.loop("h", hours)) {
      auto net = p.let("net", 0.6f + 0.5f * use(h, i) - max(sun(h, i), 0.0f));
      auto top = p.let("top", (1.2f + 0.5f * room(i)) * health);
      p.when(mode == 0 && charge > 0.8f * top, [&] { mode = 1; }).otherwise(mode == 1 && charge < 0.1f, [&] {
        mode = 0;
      });
      auto move = p.scalar<float>("move", 0.0f);
      p.when(net < 0, [&] { move = min(-1.0f * net, min(top - charge, 0.4f)); }).otherwise(mode == 1, [&] {
        move = -1.0f * min(net, min(charge, 0.5f));
      });
      charge += select(move > 0, 0.95f * move, 1.04f * move);
      charge = max(charge, 0.0f);
      health -= 0.001f * (1.0f + 0.3f * wear()) * abs(move);
      auto bought = p.let("bought", net + move);
      p.when(h % 720 == 0, [&] { month = 0.0f; });
      month += max(bought, 0.0f);
      auto tier = p.let("tier", select(month < 20.0f, 0, select(month < 80.0f, 1, 2)));
      bill(i) += select(bought > 0, bought * (0.3f + 0.1f * tariff(h % 24, tier)), 0.08f * bought);
      peak(i).max_with(bought);
    }
  }
  return p.build();
}

/// Queues in a closed network: mean values for all populations of two classes, from smaller ones.
Program closed_queues() {
  ProgramBuilder p("closed_queues");
  auto a = p.size("a"), b = p.size("b"), k = p.size("k"), plans = p.size("plans");
  auto work = p.input<double>("work", {plans, 2, k}), think = p.input<double>("think", {2});
  auto out = p.output<double>("out", {plans, 2}), busy = p.output<double>("busy", {plans, k});
  for (auto q : p.loop("q", plans)) {
    auto length = p.local<double>("length", {a + 1, b + 1, k});
    for (auto s : p.loop("s0", k)) busy(q, s) = 0.0;
    for (auto [i, j] : p.loop({"i", a + 1}, {"j", b + 1})) {
      for (auto s : p.loop("s", k)) length(i, j, s) = 0.0;
      for (auto c : p.loop("c", 2)) {
        auto mine = p.let("mine", select(c == 0, i, j));
        p.when(mine > 0, [&] {
           auto i0 = select(c == 0, i - 1, i), j0 = select(c == 0, j, j - 1);
           auto time = p.scalar<double>("time");
           time = 1.0 + 0.5 * think(c);
           for (auto s : p.loop("s1", k)) time += exp(work(q, c, s)) * (1.0 + length(i0, j0, s));
           auto rate = p.let("rate", cast<double>(mine) / time);
           for (auto s : p.loop("s2", k)) length(i, j, s) += rate * exp(work(q, c, s)) * (1.0 + length(i0, j0, s));
           p.when(i == a && j == b, [&] {
             out(q, c) = rate;
             for (auto s : p.loop("s3", k)) busy(q, s) += rate * exp(work(q, c, s));
           });
         }).otherwise([&] { p.when(i == a && j == b, [&] { out(q, c) = 0.0; }); });
      }
    }
  }
  return p.build();
}

/// A book of orders: each newcomer eats levels of the other side until its price or size ends; the rest stays.
Program order_book() {
  ProgramBuilder p("order_book");
  auto books = p.size("books"), n = p.size("n"), levels = p.size("levels");
  auto side = p.input<int>("side", {books, n}), limit = p.input<int>("limit", {books, n});
  p.in_range(side, 0, 2), p.in_range(limit, 0, levels);
  auto amount = p.input<float>("amount", {books, n}), open = p.input<float>("open", {books, 2, levels}),
       tick = p.input<float>("tick", {});
  auto paid = p.output<float>("paid", {books, n}), left = p.output<float>("left", {books, 2, levels});
  for (auto b : p.loop("b", books)) {
    for (auto [s, l] : p.loop({"s", 2}, {"l", levels})) left(b, s, l) = 0.2f * abs(open(b, s, l));
    for (auto i : p.loop("i", n)) {
      auto want = p.scalar<float>("want");
      want = 0.5f + 0.4f * amount(b, i);
      paid(b, i) = 0.0f;
      auto other = 1 - side(b, i);
      for (auto k : p.loop_while("k", levels, [&](auto at) { return at <= limit(b, i) && want > 1e-3f; })) {
        auto take = p.let("take", min(want, left(b, other, k)));
        want -= take;
        left(b, other, k) -= take;
        paid(b, i) += take * (1.0f + (0.01f + 0.001f * tick()) * cast<float>(k));
      }
      left(b, side(b, i), limit(b, i)) += want;
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> trades() {
  auto upwind_first = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
    const std::int64_t n = sizes.at("n"), dirs = sizes.at("dirs");
    for (std::int64_t d = 0; d < dirs; ++d)
      for (std::int64_t a = 0; a < n; ++a)
        arrays.at("order").set(d * n + a, static_cast<double>((a * 7 + d) % n == a ? a : (d % 2 == 0 ? a : n - 1 - a)));
  };
  return {
      {{"rate_curve", "", rate_curve, {{"curves", 301}, {"m", 25}, {"pays", 301}}},
       {{{"curves", 2}, {"m", 4}, {"pays", 9}}, {{"curves", 1}, {"m", 1}, {"pays", 1}}}},
      {{"regressed_exercise", "", regressed_exercise, {{"n", 20011}, {"t", 23}}},
       {{{"n", 9}, {"t", 3}}, {{"n", 1}, {"t", 1}}}},
      {{"claim_triangles", "", claim_triangles, {{"lines", 401}, {"n", 37}}},
       {{{"lines", 2}, {"n", 5}}, {{"lines", 1}, {"n", 2}}}},
      {{"parts_explosion", "", parts_explosion, {{"items", 3001}, {"links", 8009}, {"weeks", 53}}},
       {{{"items", 5}, {"links", 9}, {"weeks", 6}}, {{"items", 1}, {"links", 1}, {"weeks", 2}}}},
      {{"wind_farm", "", wind_farm, {{"dirs", 37}, {"n", 61}, {"knots", 31}, {"speeds", 13}}, {}, {}, upwind_first},
       {{{"dirs", 3}, {"n", 4}, {"knots", 5}, {"speeds", 2}}, {{"dirs", 1}, {"n", 1}, {"knots", 3}, {"speeds", 1}}}},
      {{"pipe_loops", "", pipe_loops, {{"pipes", 5003}, {"loops", 1801}, {"members", 8101}, {"rounds", 25}}},
       {{{"pipes", 5}, {"loops", 3}, {"members", 8}, {"rounds", 4}},
        {{"pipes", 1}, {"loops", 1}, {"members", 1}, {"rounds", 1}}}},
      {{"solar_strings", "", solar_strings, {{"hours", 301}, {"strings", 7}, {"modules", 17}, {"volts", 21}}},
       {{{"hours", 2}, {"strings", 2}, {"modules", 3}, {"volts", 4}},
        {{"hours", 1}, {"strings", 1}, {"modules", 1}, {"volts", 1}}}},
      {{"house_batteries", "", house_batteries, {{"homes", 113}, {"hours", 8760}}},
       {{{"homes", 2}, {"hours", 30}}, {{"homes", 1}, {"hours", 3}}}},
      {{"closed_queues", "", closed_queues, {{"a", 31}, {"b", 23}, {"k", 11}, {"plans", 57}}},
       {{{"a", 3}, {"b", 2}, {"k", 2}, {"plans", 2}}, {{"a", 1}, {"b", 1}, {"k", 1}, {"plans", 1}}}},
      {{"order_book", "", order_book, {{"books", 41}, {"n", 5003}, {"levels", 29}}},
       {{{"books", 2}, {"n", 9}, {"levels", 4}}, {{"books", 1}, {"n", 1}, {"levels", 1}}}},
  };
}

}  // namespace loopgrad::fields

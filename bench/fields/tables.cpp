// Tables and epidemics: groups, joins, windows, contacts, patches.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// Frequencies of an allele: binomial drift (by logarithms of factorials), selection, migration between two demes.
Program wright_fisher() {
  ProgramBuilder p("wright_fisher");
  auto n = p.size("n"), generations = p.size("generations");
  auto select_by = p.input<double>("select_by", {2}), mutate = p.input<double>("mutate", {2});
  auto pi = p.inout<double>("pi", {2, n + 1});
  auto mean = p.output<double>("mean", {generations, 2});
  auto fact = p.local<double>("fact", {n + 1}), next = p.local<double>("next", {2, n + 1});
  fact(0) = 0.0;
  for (auto k : p.loop("k", 1, n + 1)) fact(k) = fact(k - 1) + log(cast<double>(k));
  for (auto g : p.loop("g", generations)) {
    for (auto d : p.loop("d", 2)) {
      for (auto j : p.loop("j0", n + 1)) next(d, j) = 0.0;
      mean(g, d) = 0.0;
      for (auto i : p.loop("i", n + 1)) {
        auto x = p.let("x", (cast<double>(i) + 0.5) / (cast<double>(n) + 1.0));
        auto fit = p.let("fit", x * (1.0 + 0.1 * select_by(d)));
        auto q = p.let("q", fit / (fit + 1.0 - x) * (0.98 - 0.01 * mutate(d)) + 0.01);
        auto lq = p.let("lq", log(q)), lr = p.let("lr", log(1.0 - q));
        for (auto j : p.loop("j", n + 1))
          next(d, j) +=
              pi(d, i) * exp(fact(n) - fact(j) - fact(n - j) + cast<double>(j) * lq + cast<double>(n - j) * lr);
      }
    }
    for (auto d : p.loop("d1", 2))
      for (auto j : p.loop("j1", n + 1)) {
        pi(d, j) = 0.95 * next(d, j) + 0.05 * next(1 - d, j);
        mean(g, d) += pi(d, j) * cast<double>(j);
      }
  }
  return p.build();
}

/// Susceptible, exposed, infected, recovered, by patch and age; travel is a sparse matrix with short rows.
Program patch_seir() {
  ProgramBuilder p("patch_seir");
  auto patches = p.size("patches"), ages = p.size("ages"), trips = p.size("trips"), days = p.size("days");
  auto ptr = p.input<int>("ptr", {patches + 1}), from = p.input<int>("from", {trips});
  p.csr(ptr, trips), p.in_range(from, 0, patches);
  auto share = p.input<float>("share", {trips}), contact = p.input<float>("contact", {ages, ages}),
       beta = p.input<float>("beta", {days});
  auto s = p.inout<float>("s", {patches * ages}), e = p.inout<float>("e", {patches * ages}),
       i = p.inout<float>("i", {patches * ages});
  auto cases = p.output<float>("cases", {days}), peak = p.output<float>("peak", {patches});
  auto force = p.local<float>("force", {patches * ages}), near = p.local<float>("near", {patches * ages});
  for (auto u : p.loop("u0", patches)) peak(u) = 0.0f;
  for (auto t : p.loop("t", days)) {
    cases(t) = 0.0f;
    for (auto u : p.loop("u", patches))
      for (auto a : p.loop("a", ages)) {
        near(u * ages + a) = 0.8f * i(u * ages + a);
        for (auto k : p.loop("k", ptr(u), ptr(u + 1)))
          near(u * ages + a) += 0.1f * (1.0f + share(k)) * i(from(k) * ages + a);
      }
    for (auto u : p.loop("u1", patches))
      for (auto a : p.loop("a1", ages)) {
        force(u * ages + a) = 0.0f;
        for (auto b : p.loop("b", ages)) force(u * ages + a) += (0.2f + 0.1f * contact(a, b)) * near(u * ages + b);
      }
    for (auto k : p.loop("k1", patches * ages)) {
      auto fresh = p.let("fresh", 0.2f * (1.0f + 0.5f * beta(t)) * force(k) * s(k));
      auto ill = p.let("ill", 0.25f * e(k));
      s(k) -= fresh;
      e(k) += fresh - ill;
      i(k) += ill - 0.15f * i(k);
      cases(t) += fresh;
    }
    for (auto u : p.loop("u2", patches)) {
      auto now = p.scalar<float>("now", 0);
      for (auto a : p.loop("a2", ages)) now += i(u * ages + a);
      peak(u).max_with(now);
    }
  }
  return p.build();
}

/// Contacts in the order in which they happened: both probabilities of being ill change with each.
Program contact_log() {
  ProgramBuilder p("contact_log");
  auto people = p.size("people"), contacts = p.size("contacts");
  auto a = p.input<int>("a", {contacts}), b = p.input<int>("b", {contacts});
  p.in_range(a, 0, people), p.in_range(b, 0, people);
  auto risk = p.input<double>("risk", {contacts}), shield = p.input<double>("shield", {people});
  auto ill = p.inout<double>("ill", {people});
  auto burden = p.output<double>("burden", {});
  for (auto c : p.loop("c", contacts)) {
    auto pa = p.let("pa", ill(a(c))), pb = p.let("pb", ill(b(c))), r = p.let("r", sigmoid(risk(c)));
    p.when(a(c) != b(c), [&] {
      ill(a(c)) = 1.0 - (1.0 - pa) * (1.0 - 0.3 * r * sigmoid(shield(a(c))) * pb);
      ill(b(c)) = 1.0 - (1.0 - pb) * (1.0 - 0.3 * r * sigmoid(shield(b(c))) * pa);
    });
  }
  burden() = 0.0;
  for (auto i : p.loop("i", people)) burden() += ill(i);
  return p.build();
}

/// select key, count, mean, deviation, max from rows where .. group by key; then each row's score within its group.
Program group_scores() {
  ProgramBuilder p("group_scores");
  auto rows = p.size("rows"), keys = p.size("keys");
  auto key = p.input<int>("key", {rows}), flag = p.input<int>("flag", {rows});
  p.in_range(key, 0, keys), p.in_range(flag, 0, 5);
  auto x = p.input<float>("x", {rows}), w = p.input<float>("w", {rows});
  auto score = p.output<float>("score", {rows}), mean = p.output<float>("mean", {keys}),
       top = p.output<float>("top", {keys});
  auto count = p.local<int>("count", {keys});
  auto sum = p.local<float>("sum", {keys}), square = p.local<float>("square", {keys}),
       weight = p.local<float>("weight", {keys});
  for (auto k : p.loop("k", keys)) count(k) = 0, sum(k) = 0.0f, square(k) = 0.0f, weight(k) = 0.1f, top(k) = -1.0f;
  for (auto r : p.loop("r", rows))
    p.when(flag(r) != 3 && flag(r) != 0, [&] {
      auto v = p.let("v", x(r) * (1.0f + 0.5f * w(r)));
      count(key(r)) += 1;
      weight(key(r)) += 1.5f + w(r);
      sum(key(r)) += (1.5f + w(r)) * v;
      square(key(r)) += (1.5f + w(r)) * v * v;
      top(key(r)).max_with(v);
    });
  for (auto k : p.loop("k1", keys)) mean(k) = sum(k) / weight(k);
  for (auto r : p.loop("r1", rows)) {
    auto k = key(r);
    score(r) = 0.0f;
    p.when(count(k) > 1, [&] {
      auto spread = p.let("spread", square(k) / weight(k) - mean(k) * mean(k) + 0.3f);
      score(r) = (x(r) - mean(k)) / sqrt(max(spread, 0.01f)) + 0.1f * (top(k) - x(r));
    });
  }
  return p.build();
}

/// A join of two sorted tables by merging them, every pair of equal keys is a row of the result's sums.
Program merge_join() {
  ProgramBuilder p("merge_join");
  auto n = p.size("n"), m = p.size("m"), keys = p.size("keys");
  auto left = p.input<int>("left", {n}), right = p.input<int>("right", {m});
  p.in_range(left, 0, keys), p.in_range(right, 0, keys), p.sorted(left), p.sorted(right);
  auto price = p.input<double>("price", {n}), amount = p.input<double>("amount", {m});
  auto total = p.output<double>("total", {keys}), all = p.output<double>("all", {});
  for (auto k : p.loop("k", keys)) total(k) = 0.0;
  all() = 0.0;
  auto j = p.scalar<std::int64_t>("j", 0);
  for (auto i : p.loop("i", n)) {
    for (auto s : p.loop_while("s", m, [&](auto) { return j < m && right(min(j, m - 1)) < left(i); })) {
      (void)s;
      j += 1;
    }
    for (auto s : p.loop_while("s1", m, [&](auto s1) { return j + s1 < m && right(min(j + s1, m - 1)) == left(i); })) {
      auto value = p.let("value", price(i) * sqrt(1.5 + amount(j + s)));
      total(left(i)) += value;
      all() += value * value;
    }
  }
  return p.build();
}

/// Rows by time, for each the sum, mean and largest of those within `width` before it: a window whose start only moves
/// on.
Program time_windows() {
  ProgramBuilder p("time_windows");
  auto n = p.size("n"), width = p.size("width"), span = p.size("span");
  auto time = p.input<int>("time", {n});
  p.in_range(time, 0, span), p.sorted(time);
  auto x = p.input<double>("x", {n});
  auto rolling = p.output<double>("rolling", {n}), mean = p.output<double>("mean", {n}),
       decayed = p.output<double>("decayed", {n});
  auto lo = p.scalar<std::int64_t>("lo", 0);
  auto sum = p.scalar<double>("sum", 0.0), trace = p.scalar<double>("trace", 0.0);
  for (auto i : p.loop("i", n)) {
    sum += x(i) * x(i);
    for (auto s : p.loop_while("s", n, [&](auto) { return lo < i && time(min(lo, n - 1)) + width < time(i); })) {
      (void)s;
      sum -= x(lo) * x(lo);
      lo += 1;
    }
    rolling(i) = sqrt(sum + 0.5);
    mean(i) = sum / cast<double>(i + 1 - lo);
    auto gap = p.let("gap", cast<double>(time(i) - time(max(i - 1, 0))));
    trace = trace * exp(-0.1 * gap) + x(i);
    decayed(i) = tanh(trace);
  }
  return p.build();
}

/// The k largest of each row of entries, kept sorted in a small local array, then a soft ranking of those.
Program top_of_rows() {
  ProgramBuilder p("top_of_rows");
  auto rows = p.size("rows"), entries = p.size("entries");
  auto ptr = p.input<int>("ptr", {rows + 1}), item = p.input<int>("item", {entries});
  p.csr(ptr, entries), p.in_range(item, 0, rows);
  auto score = p.input<float>("score", {entries}), bias = p.input<float>("bias", {rows});
  auto best = p.output<float>("best", {rows, 3}), soft = p.output<float>("soft", {rows});
  for (auto r : p.loop("r", rows)) {
    auto top = p.local<float>("top", {3});
    for (auto q : p.loop("q", 3)) top(q) = -9.0f;
    for (auto e : p.loop("e", ptr(r), ptr(r + 1))) {
      auto v = p.scalar<float>("v"), down = p.scalar<float>("down");
      v = score(e) + 0.2f * bias(item(e));
      for (auto q : p.loop("q1", 3))
        p.when(v > top(q), [&] {
          down = top(q);
          top(q) = v;
          v = down;
        });
    }
    auto z = p.scalar<float>("z", 0);
    for (auto q : p.loop("q2", 3)) z += exp(top(q));
    soft(r) = exp(top(0)) / z;
    for (auto q : p.loop("q3", 3)) best(r, q) = top(q) * exp(top(q)) / z;
  }
  return p.build();
}

/// Stocks on three levels: orders wait in a pipeline (a ring of days), demand takes what is there, the rest is owed.
Program inventory() {
  ProgramBuilder p("inventory");
  auto items = p.size("items"), days = p.size("days"), lead = p.size("lead");
  auto demand = p.input<double>("demand", {days, items}), base = p.input<double>("base", {3, items}),
       price = p.input<double>("price", {3});
  auto cost = p.output<double>("cost", {items}), left = p.output<double>("left", {3, items});
  for (auto i : p.loop("i", items)) {
    auto stock = p.local<double>("stock", {3}), owed = p.local<double>("owed", {3}),
         pipe = p.local<double>("pipe", {3, lead + 1});
    for (auto l : p.loop("l", 3)) {
      stock(l) = 1.0 + 0.3 * base(l, i), owed(l) = 0.0;
      for (auto d : p.loop("d", lead + 1)) pipe(l, d) = 0.0;
    }
    cost(i) = 0.0;
    for (auto t : p.loop("t", days)) {
      auto wanted = p.scalar<double>("wanted");
      wanted = max(0.5 + 0.5 * demand(t, i), 0.0);
      for (auto l : p.loop("l1", 3)) {
        stock(l) += pipe(l, t % (lead + 1));
        pipe(l, t % (lead + 1)) = 0.0;
        auto due = p.let("due", wanted + owed(l));
        auto sent = p.let("sent", min(stock(l), due));
        stock(l) -= sent;
        owed(l) = due - sent;
        p.when(l > 0, [&] { pipe(l - 1, (t + lead) % (lead + 1)) += sent; });
        auto position = p.scalar<double>("position");
        position = stock(l) - owed(l);
        for (auto d : p.loop("d1", lead + 1)) position += pipe(l, d);
        wanted = max(2.0 + base(l, i) - position, 0.0);
        cost(i) += (0.5 + 0.1 * price(l)) * stock(l) + 2.0 * owed(l);
      }
      pipe(2, (t + lead) % (lead + 1)) += wanted;
    }
    for (auto l : p.loop("l2", 3)) left(l, i) = stock(l);
  }
  return p.build();
}

/// Routes in rows: arrival waits for the window to open, lateness is paid, loads run down.
Program routes() {
  ProgramBuilder p("routes");
  auto vans = p.size("vans"), stops = p.size("stops"), places = p.size("places");
  auto ptr = p.input<int>("ptr", {vans + 1}), where = p.input<int>("where", {stops});
  p.csr(ptr, stops), p.in_range(where, 0, places);
  auto xy = p.input<double>("xy", {places, 2}), open = p.input<double>("open", {places}),
       take = p.input<double>("take", {places}), speed = p.input<double>("speed", {vans});
  auto late = p.output<double>("late", {vans}), way = p.output<double>("way", {vans}),
       arrive = p.output<double>("arrive", {stops});
  for (auto v : p.loop("v", vans)) {
    auto at = p.scalar<double>("at", 0.0), load = p.scalar<double>("load", 3.0);
    auto here = p.scalar<std::int64_t>("here", 0);
    late(v) = 0.0, way(v) = 0.0;
    for (auto s : p.loop("s", ptr(v), ptr(v + 1))) {
      auto next = where(s);
      auto dx = p.let("dx", xy(next, 0) - xy(here, 0)), dy = p.let("dy", xy(next, 1) - xy(here, 1));
      auto far = p.let("far", sqrt(dx * dx + dy * dy + 1e-3));
      way(v) += far;
      at = max(at + far / (1.0 + 0.3 * speed(v)) * (1.0 + 0.05 * load), 1.5 + open(next));
      late(v) += max(at - 2.5 - open(next), 0.0);
      load -= 0.2 + 0.1 * take(next);
      p.when(load < 0.5, [&] { load = 3.0, at += 0.7; });
      arrive(s) = at;
      here = next;
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> tables() {
  auto shares = [](const Sizes&, std::uint64_t seed, InputArrays& arrays) {
    tools::Random random(seed);
    for (const char* name : {"s", "e", "i"}) {
      HostArray& x = arrays.at(name);
      for (std::int64_t k = 0; k < x.size(); ++k) x.set(k, random.uniform(0, *name == 's' ? 1.0 : 0.01));
    }
  };
  return {
      {{"wright_fisher", "", wright_fisher, {{"n", 150}, {"generations", 30}}},
       {{{"n", 5}, {"generations", 3}}, {{"n", 1}, {"generations", 1}}}},
      {{"patch_seir", "", patch_seir, {{"patches", 1500}, {"ages", 5}, {"trips", 5000}, {"days", 100}}, {}, {}, shares},
       {{{"patches", 5}, {"ages", 3}, {"trips", 8}, {"days", 3}},
        {{"patches", 1}, {"ages", 1}, {"trips", 1}, {"days", 1}}}},
      {{"contact_log", "", contact_log, {{"people", 10000}, {"contacts", 300000}}},
       {{{"people", 5}, {"contacts", 12}}, {{"people", 1}, {"contacts", 3}}, {{"people", 2}, {"contacts", 5}}}},
      {{"group_scores", "", group_scores, {{"rows", 700000}, {"keys", 3000}}},
       {{{"rows", 13}, {"keys", 4}}, {{"rows", 5}, {"keys", 1}}, {{"rows", 3}, {"keys", 7}}}},
      {{"merge_join", "", merge_join, {{"n", 1000}, {"m", 3000}, {"keys", 300}}},
       {{{"n", 7}, {"m", 9}, {"keys", 4}}, {{"n", 3}, {"m", 1}, {"keys", 1}}, {{"n", 1}, {"m", 5}, {"keys", 2}}}},
      {{"time_windows", "", time_windows, {{"n", 500000}, {"width", 30}, {"span", 1000000}}},
       {{{"n", 9}, {"width", 3}, {"span", 15}},
        {{"n", 1}, {"width", 0}, {"span", 1}},
        {{"n", 6}, {"width", 1}, {"span", 5}}}},
      {{"top_of_rows", "", top_of_rows, {{"rows", 150000}, {"entries", 700000}}},
       {{{"rows", 5}, {"entries", 17}}, {{"rows", 1}, {"entries", 2}}, {{"rows", 9}, {"entries", 5}}}},
      {{"inventory", "", inventory, {{"items", 500}, {"days", 365}, {"lead", 5}}},
       {{{"items", 3}, {"days", 7}, {"lead", 2}},
        {{"items", 1}, {"days", 3}, {"lead", 0}},
        {{"items", 2}, {"days", 2}, {"lead", 3}}}},
      {{"routes", "", routes, {{"vans", 50000}, {"stops", 500000}, {"places", 20000}}},
       {{{"vans", 3}, {"stops", 11}, {"places", 5}},
        {{"vans", 1}, {"stops", 1}, {"places", 1}},
        {{"vans", 7}, {"stops", 4}, {"places", 3}}}},
  };
}

}  // namespace loopgrad::fields

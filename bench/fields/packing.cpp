// More loops that vectorising compilers are measured by (TSVC): searches, packing, recurrences, overlaps, switches.
#include "bench/fields/fields.h"

#include <algorithm>

namespace loopgrad::fields {
namespace {

/// s318: the largest absolute value of every inc-th element, and where it is.
Program largest_with_stride() {
  ProgramBuilder p("largest_with_stride");
  auto n = p.size("n"), inc = p.size("inc");
  auto a = p.input<float>("a", {n * inc}), w = p.input<float>("w", {n});
  auto out = p.output<float>("out", {2});
  auto k = p.scalar<std::int64_t>("k", 0), index = p.scalar<std::int64_t>("index", 0);
  auto top = p.scalar<float>("top", abs(a(0)));
  k += inc;
  for (auto i : p.loop("i", 1, n)) {
    p.when(abs(a(k)) > top, [&] {
      index = i;
      top = abs(a(k));
    });
    k += inc;
  }
  out(0) = top + cast<float>(index + 1);
  out(1) = w(index) * a(index * inc);
  return p.build();
}

/// s3110: the largest of a matrix, with its row and column.
Program largest_of_matrix() {
  ProgramBuilder p("largest_of_matrix");
  auto n = p.size("n"), m = p.size("m");
  auto aa = p.input<float>("aa", {n, m});
  auto u = p.input<float>("u", {n}), v = p.input<float>("v", {m});
  auto out = p.output<float>("out", {});
  auto top = p.scalar<float>("top", aa(0, 0));
  auto row = p.scalar<std::int64_t>("row", 0), column = p.scalar<std::int64_t>("column", 0);
  for (auto [i, j] : p.loop({"i", n}, {"j", m}))
    p.when(aa(i, j) > top, [&] {
      top = aa(i, j);
      row = i;
      column = j;
    });
  out() = top * u(row) * v(column);
  return p.build();
}

/// s322: a recurrence of second order in place.
Program second_order() {
  ProgramBuilder p("second_order");
  auto n = p.size("n");
  auto b = p.input<float>("b", {n}), c = p.input<float>("c", {n});
  auto a = p.inout<float>("a", {n});
  for (auto i : p.loop("i", 2, n)) a(i) = a(i) + 0.4f * a(i - 1) * b(i) + 0.4f * a(i - 2) * c(i);
  return p.build();
}

/// s323: two recurrences that need each other.
Program coupled_recurrence() {
  ProgramBuilder p("coupled_recurrence");
  auto n = p.size("n");
  auto c = p.input<float>("c", {n}), d = p.input<float>("d", {n}), e = p.input<float>("e", {n});
  auto a = p.inout<float>("a", {n}), b = p.inout<float>("b", {n});
  for (auto i : p.loop("i", 1, n)) {
    a(i) = 0.5f * b(i - 1) * d(i) + c(i) * d(i);
    b(i) = a(i) + c(i) * e(i);
  }
  return p.build();
}

/// s332: the first element above a limit, found by a loop that is left.
Program first_above() {
  ProgramBuilder p("first_above");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n}), limit = p.input<float>("limit", {});
  auto out = p.output<float>("out", {});
  auto value = p.scalar<float>("value", -1.0f);
  auto index = p.scalar<std::int64_t>("index", -2);
  for (auto i : p.loop_while("i", n, [&](const Value&) { return index < 0; }))
    p.when(a(i) > 0.4f + 0.1f * abs(limit()), [&] {
      index = i;
      value = a(i) * a(i);
    });
  out() = value + cast<float>(index);
  return p.build();
}

/// s341: the positive ones, packed.
Program packed_positive() {
  ProgramBuilder p("packed_positive");
  auto n = p.size("n");
  auto b = p.input<float>("b", {n}), c = p.input<float>("c", {n});
  auto a = p.inout<float>("a", {n});
  auto j = p.scalar<std::int64_t>("j", -1);
  for (auto i : p.loop("i", n))
    p.when(b(i) > 0.0f, [&] {
      j += 1;
      a(j) = b(i) * b(i) + c(i);
    });
  return p.build();
}

/// s342: the same the other way.
Program unpacked() {
  ProgramBuilder p("unpacked");
  auto n = p.size("n");
  auto b = p.input<float>("b", {n}), mask = p.input<float>("mask", {n});
  auto a = p.inout<float>("a", {n});
  auto j = p.scalar<std::int64_t>("j", -1);
  for (auto i : p.loop("i", n))
    p.when(mask(i) > 0.0f, [&] {
      j += 1;
      a(i) = b(j) * mask(i);
    });
  return p.build();
}

/// s343: a matrix packed into a line by the signs of another one, column by column.
Program packed_matrix() {
  ProgramBuilder p("packed_matrix");
  auto n = p.size("n");
  auto aa = p.input<float>("aa", {n, n}), bb = p.input<float>("bb", {n, n});
  auto flat = p.inout<float>("flat", {n * n});
  auto k = p.scalar<std::int64_t>("k", -1);
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", n))
      p.when(bb(j, i) > 0.0f, [&] {
        k += 1;
        flat(k) = aa(j, i) * bb(j, i);
      });
  return p.build();
}

/// Where a signal crosses zero, between which samples and how steeply: a list as long as there are crossings.
Program crossings() {
  ProgramBuilder p("crossings");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto place = p.inout<float>("place", {n}), slope = p.inout<float>("slope", {n}), count = p.output<float>("count", {});
  auto k = p.scalar<std::int64_t>("k", 0);
  for (auto i : p.loop("i", n - 1))
    p.when(x(i) * x(i + 1) < 0.0f, [&] {
      place(k) = cast<float>(i) + x(i) / (x(i) - x(i + 1));
      slope(k) = x(i + 1) - x(i);
      k += 1;
    });
  count() = cast<float>(k);
  return p.build();
}

/// Particles that are in the box yet are moved to the front, the others are heat.
Program remaining_particles() {
  ProgramBuilder p("remaining_particles");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, 3}), v = p.input<float>("v", {n, 3}), mass = p.input<float>("mass", {n});
  auto next_x = p.inout<float>("next_x", {n, 3}), next_mass = p.inout<float>("next_mass", {n});
  auto heat = p.output<float>("heat", {});
  auto lost = p.scalar<float>("lost", 0);
  auto alive = p.scalar<std::int64_t>("alive", 0);
  for (auto i : p.loop("i", n))
    p.when(abs(x(i, 0)) < 0.7f, [&] {
       for (auto c : p.loop("c", 3)) next_x(alive, c) = x(i, c) + 0.01f * v(i, c) * mass(i);
       next_mass(alive) = 0.99f * mass(i) * mass(i);
       alive += 1;
     }).otherwise([&] { lost += mass(i) * v(i, 0) * v(i, 0); });
  heat() = lost;
  return p.build();
}

/// A gain for each event, in the order in which they come; between events the signal fades.
Program gains_of_events() {
  ProgramBuilder p("gains_of_events");
  auto n = p.size("n");
  auto event = p.input<int>("event", {n});
  auto x = p.input<float>("x", {n}), gain = p.input<float>("gain", {n});
  auto y = p.output<float>("y", {n});
  p.in_range(event, 0, 2);
  auto e = p.scalar<std::int64_t>("e", -1);
  for (auto i : p.loop("i", n))
    p.when(event(i) == 1, [&] {
       e += 1;
       y(i) = gain(e) * gain(e) * x(i);
     }).otherwise([&] { y(i) = 0.9f * x(i) * x(i); });
  return p.build();
}

/// s352 and s353: dots and sparse saxpys unrolled by five.
Program unrolled_sums() {
  ProgramBuilder p("unrolled_sums");
  auto n = p.size("n");
  auto ip = p.input<int>("ip", {5 * n});
  auto b = p.input<float>("b", {5 * n}), c = p.input<float>("c", {5 * n}), alpha = p.input<float>("alpha", {});
  auto a = p.inout<float>("a", {5 * n}), out = p.output<float>("out", {});
  p.in_range(ip, 0, 5 * n);
  auto dot = p.scalar<float>("dot", 0);
  for (auto i : p.loop("i", 0, 5 * n, {.step = 5})) {
    dot = dot + b(i) * c(i) + b(i + 1) * c(i + 1) + b(i + 2) * c(i + 2) + b(i + 3) * c(i + 3) + b(i + 4) * c(i + 4);
    for (int k = 0; k < 5; ++k) a(i + k) += alpha() * b(ip(i + k));
  }
  out() = dot;
  return p.build();
}

/// s424: two arrays in one memory, 64 apart.
Program overlap() {
  ProgramBuilder p("overlap");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n});
  auto flat = p.inout<float>("flat", {n + 64});
  for (auto i : p.loop("i", n)) flat(i + 64) = 0.9f * flat(i) * flat(i) + a(i);
  return p.build();
}

/// s442: a switch on data.
Program switched() {
  ProgramBuilder p("switched");
  auto n = p.size("n");
  auto which = p.input<int>("which", {n});
  auto b = p.input<float>("b", {n}), c = p.input<float>("c", {n}), d = p.input<float>("d", {n}),
       e = p.input<float>("e", {n});
  auto a = p.inout<float>("a", {n});
  p.in_range(which, 1, 5);
  for (auto i : p.loop("i", n))
    p.when(which(i) == 1, [&] { a(i) += b(i) * b(i); }).otherwise([&] {
      p.when(which(i) == 2, [&] { a(i) += c(i) * c(i); }).otherwise([&] {
        p.when(which(i) == 3, [&] { a(i) += d(i) * d(i); }).otherwise([&] { a(i) += e(i) * e(i); });
      });
    });
  return p.build();
}

/// s4114, s4116 and s4117: indices of which data are a part, and halves.
Program mixed_indices() {
  ProgramBuilder p("mixed_indices");
  auto n = p.size("n"), shift = p.size("shift");
  auto ip = p.input<int>("ip", {n});
  auto aa = p.input<float>("aa", {3, n}), b = p.input<float>("b", {n}), c = p.input<float>("c", {n}),
       d = p.input<float>("d", {n}), e = p.input<float>("e", {n + shift});
  auto a = p.output<float>("a", {n}), sum = p.output<float>("sum", {});
  p.in_range(ip, 0, n);
  auto k = p.scalar<std::int64_t>("k", 0);
  for (auto i : p.loop("i", n)) {
    k = ip(i);
    a(i) = b(i) + c(n - k - 1) * d(i);
    k += 5;
  }
  auto s = p.scalar<float>("s", 0);
  for (auto i : p.loop("i", n)) s += e(shift + i) * aa(1, ip(i));
  for (auto i : p.loop("i", n)) a(i) += c(i / 2) * d(i);
  sum() = s + cast<float>(k);
  return p.build();
}

/// s482: a loop that is left after a statement.
Program left_loop() {
  ProgramBuilder p("left_loop");
  auto n = p.size("n");
  auto b = p.input<float>("b", {n}), c = p.input<float>("c", {n});
  auto a = p.inout<float>("a", {n});
  auto go = p.scalar<int>("go", 1);
  for (auto i : p.loop_while("i", n, [&](const Value&) { return go == 1; })) {
    a(i) += b(i) * c(i) * a(i);
    p.when(c(i) > 0.6f + 0.1f * b(i), [&] { go = 0; });
  }
  return p.build();
}

/// s162, s171 and s172: offsets and strides that are sizes.
Program symbolic_strides() {
  ProgramBuilder p("symbolic_strides");
  auto n = p.size("n"), k = p.size("k"), inc = p.size("inc");
  auto b = p.input<float>("b", {n}), c = p.input<float>("c", {n});
  auto a = p.inout<float>("a", {n + k}), s = p.inout<float>("s", {n * inc});
  p.when(k > 0, [&] {
    for (auto i : p.loop("i", n)) a(i) = a(i + k) * a(i) + b(i) * c(i);
  });
  for (auto i : p.loop("i", n)) s(i * inc) = s(i * inc) * b(i) + 1.0f;
  return p.build();
}

/// s319 and s453: a sum over two arrays as they are made, and a factor that grows.
Program growing_factor() {
  ProgramBuilder p("growing_factor");
  auto n = p.size("n");
  auto c = p.input<float>("c", {n}), d = p.input<float>("d", {n}), e = p.input<float>("e", {n});
  auto a = p.output<float>("a", {n}), b = p.output<float>("b", {n}), out = p.output<float>("out", {});
  auto sum = p.scalar<float>("sum", 0), s = p.scalar<float>("s", 0);
  for (auto i : p.loop("i", n)) {
    s += 0.001f;
    a(i) = c(i) + d(i) * s;
    sum += a(i);
    b(i) = c(i) * e(i);
    sum += b(i);
  }
  out() = sum;
  return p.build();
}

/// s3112 and s311 in blocks: running sums that start anew in every block.
Program running_sum() {
  ProgramBuilder p("running_sum");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n});
  auto b = p.output<float>("b", {n}), out = p.output<float>("out", {});
  auto sum = p.scalar<float>("sum", 0);
  for (auto i : p.loop("i", n)) {
    sum += a(i);
    b(i) = sum * a(i);
  }
  out() = sum;
  return p.build();
}

}  // namespace

std::vector<Field> packing() {
  auto late = [](const char* of) {
    return [of](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {  // what ends the loop is not near its start
      for (std::int64_t i = 0; i < sizes.at("n") / 2; ++i) arrays.at(of).set(i, 0.4 * arrays.at(of).get(i));
    };
  };
  const Sizes line{{"n", 4000037}};
  const std::vector<Sizes> lines{{{"n", 7}}, {{"n", 3}}, {{"n", 22}}}, squares{{{"n", 5}}, {{"n", 2}}, {{"n", 8}}};
  return {{{"largest_with_stride", "", largest_with_stride, {{"n", 2000003}, {"inc", 3}}},
           {{{"n", 7}, {"inc", 2}}, {{"n", 3}, {"inc", 1}}, {{"n", 22}, {"inc", 3}}}},
          {{"largest_of_matrix", "", largest_of_matrix, {{"n", 1501}, {"m", 2003}}},
           {{{"n", 5}, {"m", 3}}, {{"n", 1}, {"m", 1}}, {{"n", 2}, {"m", 8}}}},
          {{"second_order", "", second_order, line}, lines},
          {{"coupled_recurrence", "", coupled_recurrence, line}, lines},
          {{"first_above", "", first_above, line, {}, {}, late("a")}, lines},
          {{"packed_positive", "", packed_positive, line}, lines},
          {{"unpacked", "", unpacked, line}, lines},
          {{"packed_matrix", "", packed_matrix, {{"n", 1501}}}, squares},
          {{"crossings", "", crossings, line}, lines},
          {{"remaining_particles", "", remaining_particles, {{"n", 1000003}}}, lines},
          {{"gains_of_events", "", gains_of_events, line}, lines},
          {{"unrolled_sums", "", unrolled_sums, {{"n", 400003}}}, {{{"n", 2}}, {{"n", 1}}, {{"n", 5}}}},
          {{"overlap", "", overlap, line}, {{{"n", 7}}, {{"n", 65}}, {{"n", 130}}}},
          {{"switched", "", switched, line}, lines},
          {{"mixed_indices", "", mixed_indices, {{"n", 1000003}, {"shift", 11}}},
           {{{"n", 7}, {"shift", 2}}, {{"n", 1}, {"shift", 0}}, {{"n", 22}, {"shift", 5}}}},
          {{"left_loop", "", left_loop, line, {}, {}, late("c")}, lines},
          {{"symbolic_strides", "", symbolic_strides, {{"n", 1000003}, {"k", 3}, {"inc", 2}}},
           {{{"n", 7}, {"k", 2}, {"inc", 2}}, {{"n", 3}, {"k", 0}, {"inc", 1}}, {{"n", 22}, {"k", 30}, {"inc", 3}}}},
          {{"growing_factor", "", growing_factor, line}, lines},
          {{"running_sum", "", running_sum, line}, lines}};
}

}  // namespace loopgrad::fields

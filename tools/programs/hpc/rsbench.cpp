#include "tools/programs/hpc/reactor.h"
#include "tools/programs/programs.h"

#include <algorithm>

namespace loopgrad::programs {
namespace {

constexpr int kMomenta = 4;                    // of a nuclide
enum Pole { kEA, kRT = 2, kRA = 4, kRF = 6 };  // complex numbers of a pole
enum Background { kT, kA, kF };                // of a window

struct Complex {
  Value re, im;
};
Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }
Complex operator*(const Complex& a, const Complex& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
Complex operator*(float s, const Complex& a) { return {s * a.re, s * a.im}; }
Complex operator/(const Complex& a, const Complex& b) {
  const Value squared = b.re * b.re + b.im * b.im;
  return {(a.re * b.re + a.im * b.im) / squared, (a.im * b.re - a.re * b.im) / squared};
}
Complex exp(const Complex& a) { return {exp(a.re) * cos(a.im), exp(a.re) * sin(a.im)}; }

/// The Faddeeva function: a series of ten terms (Abrarov) near the origin, three terms of its expansion far from it.
Complex fast_nuclear_w(ProgramBuilder& p, const Complex& z) {
  const float an[10] = {2.758402e-01f, 2.245740e-01f, 1.594149e-01f, 9.866577e-02f, 5.324414e-02f,
                        2.505215e-02f, 1.027747e-02f, 3.676164e-03f, 1.146494e-03f, 3.117570e-04f};
  const float denominator_left[10] = {9.869604e+00f, 3.947842e+01f, 8.882644e+01f, 1.579137e+02f, 2.467401e+02f,
                                      3.553058e+02f, 4.836106e+02f, 6.316547e+02f, 7.994380e+02f, 9.869604e+02f};
  const Complex one{1.0f, 0.0f}, i{0.0f, 1.0f};
  auto re = p.scalar<float>("w_re"), im = p.scalar<float>("w_im");
  p.when(sqrt(z.re * z.re + z.im * z.im) < 6.0f, [&] {
     const Complex power = exp(Complex{0.0f, 12.0f} * z);
     Complex sum{0.0f, 0.0f};
     for (int n = 0; n < 10; ++n) {
       const Complex top = (n % 2 == 0 ? -1.0f : 1.0f) * power - one;
       const Complex bottom = Complex{denominator_left[n], 0.0f} - 144.0f * (z * z);
       sum = sum + an[n] * (top / bottom);
     }
     const Complex w = i * (one - power) / (12.0f * z) + Complex{0.0f, 8.124330e+01f} * (z * sum);
     re = w.re;
     im = w.im;
   }).otherwise([&] {
    const Complex a{0.512424224754768f, 0.0f}, b{0.275255128608411f, 0.0f}, c{0.051765358792988f, 0.0f},
        d{2.724744871391589f, 0.0f}, z2 = z * z;
    const Complex w = z * i * (a / (z2 - b) + c / (z2 - d));
    re = w.re;
    im = w.im;
  });
  return {re, im};
}

/// The factors of total cross-sections that the angular momenta of a nuclide give.
void calculate_sig_t(const Value& energy, const ArrayHandle& pseudo_k0rs, const Value& nuclide,
                     const ArrayHandle& factor) {
  for (int i = 0; i < kMomenta; ++i) {
    const Value phi = pseudo_k0rs(nuclide * kMomenta + i) * sqrt(energy);
    const Value shift = i == 0   ? Value(0.0f)
                        : i == 1 ? atan(phi)
                        : i == 2 ? atan(3.0f * phi / (3.0f - phi * phi))
                                 : atan(phi * (15.0f - phi * phi) / (15.0f - 6.0f * phi * phi));
    factor(i, 0) = cos(2.0f * (phi - shift));
    factor(i, 1) = -sin(2.0f * (phi - shift));
  }
}

/// Macroscopic cross-sections by the multipole method: each nuclide has resonances in windows of energies, of which
/// the poles of the window with the event's energy are evaluated, and the others are a background.
Program build() {
  ProgramBuilder p("rsbench");
  auto lookups = p.size("lookups"), nuclides = p.size("nuclides"), most = p.size("most");
  auto max_poles = p.size("max_poles"), max_windows = p.size("max_windows"), in_window = p.size("in_window");
  auto poles = p.input<float>("poles", {nuclides * max_poles, 8});
  auto l_value = p.input<int>("l_value", {nuclides * max_poles});
  auto windows = p.input<float>("windows", {nuclides * max_windows, 3});
  auto window_start = p.input<int>("window_start", {nuclides * max_windows});
  auto window_end = p.input<int>("window_end", {nuclides * max_windows});
  auto n_windows = p.input<int>("n_windows", {nuclides});
  auto pseudo_k0rs = p.input<float>("pseudo_k0rs", {nuclides * kMomenta});
  auto num_nucs = p.input<int>("num_nucs", {kMaterials}), mats = p.input<int>("mats", {kMaterials * most});
  auto concs = p.input<float>("concs", {kMaterials * most}), energy = p.input<float>("energy", {lookups});
  auto material = p.input<int>("material", {lookups});
  auto macro_xs = p.output<float>("macro_xs", {lookups, 4});
  p.in_range(l_value, 0, kMomenta);
  p.in_range(n_windows, 1, max_windows + 1);
  p.in_range(window_start, 0, max_poles + 1);
  p.in_range(window_end, 0, max_poles + 1);
  p.in_range(num_nucs, 0, most + 1);
  p.in_range(mats, 0, nuclides);
  p.in_range(material, 0, kMaterials);

  for (auto event : p.loop("event", 0, lookups)) {
    for (auto k : p.loop("k", 0, 4)) macro_xs(event, k) = 0.0f;
    auto mat = material(event);
    auto e = energy(event);
    for (auto i : p.loop("i", 0, num_nucs(mat))) {
      auto nuclide = mats(mat * most + i);
      auto window = p.scalar<int>("window");
      window = cast<int>(e * cast<float>(n_windows(nuclide)));
      p.when(window == n_windows(nuclide), [&] { window -= 1; });
      auto factor = p.local<float>("factor", {kMomenta, 2});
      calculate_sig_t(e, pseudo_k0rs, nuclide, factor);

      auto w = nuclide * max_windows + window;
      auto sig_t = p.scalar<float>("sig_t"), sig_a = p.scalar<float>("sig_a"), sig_f = p.scalar<float>("sig_f");
      sig_t = e * windows(w, int{kT});
      sig_a = e * windows(w, int{kA});
      sig_f = e * windows(w, int{kF});
      for (auto j : p.loop("j", window_start(w), window_end(w), {.at_most = {in_window}})) {
        auto pole = nuclide * max_poles + j;
        const auto number = [&](int which) { return Complex{poles(pole, which), poles(pole, which + 1)}; };
        const Complex faddeeva = fast_nuclear_w(p, 0.5f * (Complex{e, 0.0f} - number(kEA)));
        const Complex of_l{factor(l_value(pole), 0), factor(l_value(pole), 1)};
        sig_t += (number(kRT) * (faddeeva * of_l)).re;
        sig_a += (number(kRA) * faddeeva).re;
        sig_f += (number(kRF) * faddeeva).re;
      }
      auto conc = concs(mat * most + i);
      macro_xs(event, 0) += sig_t * conc;
      macro_xs(event, 1) += sig_a * conc;
      macro_xs(event, 2) += sig_f * conc;
      macro_xs(event, 3) += (sig_t - sig_a) * conc;
    }
  }
  return p.build();
}

/// Each nuclide has some of the poles and windows that there is room for; windows share the poles out evenly.
void fill_windows(std::int64_t nuclide, const Sizes& sizes, tools::Random& random, InputArrays& arrays) {
  const std::int64_t max_poles = sizes.at("max_poles"), max_windows = sizes.at("max_windows");
  const std::int64_t windows = std::max<std::int64_t>(1, max_windows - random.below(max_windows / 2 + 1));
  const std::int64_t poles = std::min(max_poles - random.below(max_poles / 2 + 1), windows * sizes.at("in_window"));
  arrays.at("n_windows").set(nuclide, static_cast<double>(windows));
  std::int64_t at = 0;
  for (std::int64_t w = 0; w < max_windows; ++w) {
    const std::int64_t count = w < windows ? poles / windows + (w < poles % windows) : 0;
    arrays.at("window_start").set(nuclide * max_windows + w, static_cast<double>(at));
    arrays.at("window_end").set(nuclide * max_windows + w, static_cast<double>(at += count));
  }
}

/// One pole of eight is so far away that the expansion is used.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const std::int64_t nuclides = sizes.at("nuclides");
  fill_materials(nuclides, sizes.at("most"), random, arrays);
  for (std::int64_t nuclide = 0; nuclide < nuclides; ++nuclide) fill_windows(nuclide, sizes, random, arrays);
  HostArray &poles = arrays.at("poles"), &windows = arrays.at("windows"), &k0rs = arrays.at("pseudo_k0rs");
  for (std::int64_t i = 0; i < poles.size(); ++i) {
    const double far = i / 8 % 8 == 7 ? 20 : 1;
    poles.set(i, i % 8 == kEA       ? far * random.uniform()
                 : i % 8 == kEA + 1 ? -far * random.uniform(0.2, 1)
                                    : random.uniform());
  }
  for (std::int64_t i = 0; i < windows.size(); ++i) windows.set(i, random.uniform());
  for (std::int64_t i = 0; i < k0rs.size(); ++i) k0rs.set(i, random.uniform());
}

}  // namespace

ProgramEntry rsbench() {
  return {.name = "rsbench",
          .summary = "cross-sections of a reactor's materials by windows of poles (RSBench)",
          .build = build,
          .sizes = {{"lookups", 20000},
                    {"nuclides", 68},
                    {"most", 34},
                    {"max_poles", 1000},
                    {"max_windows", 100},
                    {"in_window", 12}},
          .check_sizes =
              {{"lookups", 5}, {"nuclides", 5}, {"most", 2}, {"max_poles", 11}, {"max_windows", 3}, {"in_window", 4}},
          .wrt = {"poles"},
          .fill = fill};
}

}  // namespace loopgrad::programs

/// @file
/// Small vectors, matrices and complex numbers of recorded values. Each component is a Value of its own, so that a
/// program with them is the program that would be written out by hand, and its gradient too; what expressions share is
/// computed once (see "the language").
///
/// **Example**
/// ```
/// const Vec<3> edge = load<3>(x.row(b)) - load<3>(x.row(a));     // x: {n, 3}
/// add_to(force.row(a), k * (length(edge) - rest) * normalize(edge));
/// ```
#pragma once

#include <loopgrad/program.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace loopgrad {
/// @addtogroup values
/// @{

namespace small {
template <std::size_t>
using Component = Operand;

/// A constructor with as many operands as there are components, so that each knows the user's line.
template <class Numbers>
struct Components;
template <std::size_t... K>
struct Components<std::index_sequence<K...>> {
  std::array<Value, sizeof...(K)> at;

  Components() = default;
  Components(const Component<K>&... components) : at{components.value...} {}
};
}  // namespace small

/// N numbers, `Vec<3>(a, b, c)` or `{a, b, c}`, whose components are in `at`. Components that were not assigned hold
/// nothing: using them is a UsageError.
template <std::size_t N>
struct Vec : small::Components<std::make_index_sequence<N>> {
  using small::Components<std::make_index_sequence<N>>::Components;

  /// All components equal.
  static Vec all(const Operand& value) {
    Vec v;
    v.at.fill(value.value);
    return v;
  }
  /// Component k, from 0; std::out_of_range past the last.
  /// @{
  Value& operator[](std::size_t k) { return this->at.at(k); }
  const Value& operator[](std::size_t k) const { return this->at.at(k); }
  /// @}
  /// f(name, component) in place of each component, whose names are `name_0`, `name_1` and so on.
  template <class F>
  Vec with_each(const std::string& name, const F& f) const {
    Vec v;
    for (std::size_t k = 0; k < N; ++k) v[k] = f(name + "_" + std::to_string(k), (*this)[k]);
    return v;
  }
};

/// R by C numbers, `m(r, c)`.
template <std::size_t R, std::size_t C = R>
struct Mat {
  std::array<Vec<C>, R> rows;  ///< each a row

  /// The number in row r and column c, from 0; std::out_of_range past the last.
  /// @{
  Value& operator()(std::size_t r, std::size_t c) { return rows.at(r)[c]; }
  const Value& operator()(std::size_t r, std::size_t c) const { return rows.at(r)[c]; }
  /// @}
  /// f(name, number) in place of each number, whose names are `name_0_0`, `name_0_1` and so on.
  template <class F>
  Mat with_each(const std::string& name, const F& f) const {
    Mat m;
    for (std::size_t r = 0; r < R; ++r) m.rows[r] = rows[r].with_each(name + "_" + std::to_string(r), f);
    return m;
  }
  /// 1 where r = c, else 0.
  static Mat identity() requires(R == C) {
    Mat m;
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t c = 0; c < C; ++c) m(r, c) = r == c ? 1 : 0;
    return m;
  }
};

// ---- elements of arrays ----

/// The first N elements of a row; all indices of it but the last are given by `row()`.
template <std::size_t N>
Vec<N> load(const ArrayView& row, SourceLocation where = std::source_location::current()) {
  Vec<N> v;
  for (std::size_t k = 0; k < N; ++k)
    v[k] = Value(row.at({Operand(static_cast<std::int64_t>(k), where)}, where), where);
  return v;
}
/// The first R by C elements of the last two dimensions; indices of the others are given by `row()`.
template <std::size_t R, std::size_t C = R>
Mat<R, C> load_matrix(const ArrayView& rows, SourceLocation where = std::source_location::current()) {
  Mat<R, C> m;
  for (std::size_t r = 0; r < R; ++r)
    m.rows[r] = load<C>(rows.row(Operand(static_cast<std::int64_t>(r), where)), where);
  return m;
}
/// `row(k) = v[k]` for all k.
template <std::size_t N>
void store(const ArrayView& row, const Vec<N>& v, SourceLocation where = std::source_location::current()) {
  for (std::size_t k = 0; k < N; ++k)
    row.at({Operand(static_cast<std::int64_t>(k), where)}, where) = Operand(v[k], where);
}
/// `row(k) += v[k]` for all k.
template <std::size_t N>
void add_to(const ArrayView& row, const Vec<N>& v, SourceLocation where = std::source_location::current()) {
  for (std::size_t k = 0; k < N; ++k)
    row.at({Operand(static_cast<std::int64_t>(k), where)}, where) += Operand(v[k], where);
}
/// `rows(r, c) = m(r, c)` for all r and c.
template <std::size_t R, std::size_t C>
void store(const ArrayView& rows, const Mat<R, C>& m, SourceLocation where = std::source_location::current()) {
  for (std::size_t r = 0; r < R; ++r) store(rows.row(Operand(static_cast<std::int64_t>(r), where)), m.rows[r], where);
}
/// `rows(r, c) += m(r, c)` for all r and c.
template <std::size_t R, std::size_t C>
void add_to(const ArrayView& rows, const Mat<R, C>& m, SourceLocation where = std::source_location::current()) {
  for (std::size_t r = 0; r < R; ++r) add_to(rows.row(Operand(static_cast<std::int64_t>(r), where)), m.rows[r], where);
}

// ---- vectors ----

namespace small {
template <std::size_t N, class F>
Vec<N> each(const F& f) {
  Vec<N> v;
  for (std::size_t k = 0; k < N; ++k) v[k] = f(k);
  return v;
}
}  // namespace small

/// Component by component.
/// @{
template <std::size_t N>
Vec<N> operator+(const Vec<N>& a, const Vec<N>& b) {
  return small::each<N>([&](std::size_t k) { return a[k] + b[k]; });
}
template <std::size_t N>
Vec<N> operator-(const Vec<N>& a, const Vec<N>& b) {
  return small::each<N>([&](std::size_t k) { return a[k] - b[k]; });
}
template <std::size_t N>
Vec<N> operator-(const Vec<N>& a) {
  return small::each<N>([&](std::size_t k) { return -a[k]; });
}
template <std::size_t N>
Vec<N> operator*(const Vec<N>& a, const Vec<N>& b) {
  return small::each<N>([&](std::size_t k) { return a[k] * b[k]; });
}
/// @}
/// Each component times, or by, the value.
/// @{
template <std::size_t N>
Vec<N> operator*(const Operand& s, const Vec<N>& v) {
  return small::each<N>([&](std::size_t k) { return s * v[k]; });
}
template <std::size_t N>
Vec<N> operator*(const Vec<N>& v, const Operand& s) {
  return small::each<N>([&](std::size_t k) { return v[k] * s; });
}
template <std::size_t N>
Vec<N> operator/(const Vec<N>& v, const Operand& s) {
  return small::each<N>([&](std::size_t k) { return v[k] / s; });
}
/// @}
/// The sum of products of components, the first ones first.
template <std::size_t N>
Value dot(const Vec<N>& a, const Vec<N>& b) {
  Value sum = a[0] * b[0];
  for (std::size_t k = 1; k < N; ++k) sum = sum + a[k] * b[k];
  return sum;
}
/// The vector product.
inline Vec<3> cross(const Vec<3>& a, const Vec<3>& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
/// sqrt(dot(v, v)); its derivative at zero is not finite.
template <std::size_t N>
Value length(const Vec<N>& v) {
  return sqrt(dot(v, v));
}
/// v / length(v): not finite at zero.
template <std::size_t N>
Vec<N> normalize(const Vec<N>& v) {
  return v / length(v);
}
/// By components, as the functions of values are.
/// @{
template <std::size_t N>
Vec<N> min(const Vec<N>& a, const Vec<N>& b) {
  return small::each<N>([&](std::size_t k) { return min(a[k], b[k]); });
}
template <std::size_t N>
Vec<N> max(const Vec<N>& a, const Vec<N>& b) {
  return small::each<N>([&](std::size_t k) { return max(a[k], b[k]); });
}
template <std::size_t N>
Vec<N> select(const Operand& condition, const Vec<N>& a, const Vec<N>& b) {
  return small::each<N>([&](std::size_t k) { return select(condition, a[k], b[k]); });
}
/// @}

// ---- matrices ----

namespace small {
template <std::size_t R, std::size_t C, class F>
Mat<R, C> each_of(const F& f) {
  Mat<R, C> m;
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t c = 0; c < C; ++c) m(r, c) = f(r, c);
  return m;
}
/// Without row r and column c.
template <std::size_t N>
Mat<N - 1> minor_of(const Mat<N>& m, std::size_t r, std::size_t c) {
  return each_of<N - 1, N - 1>([&](std::size_t i, std::size_t j) { return m(i < r ? i : i + 1, j < c ? j : j + 1); });
}
}  // namespace small

/// Element by element.
/// @{
template <std::size_t R, std::size_t C>
Mat<R, C> operator+(const Mat<R, C>& a, const Mat<R, C>& b) {
  return small::each_of<R, C>([&](std::size_t r, std::size_t c) { return a(r, c) + b(r, c); });
}
template <std::size_t R, std::size_t C>
Mat<R, C> operator-(const Mat<R, C>& a, const Mat<R, C>& b) {
  return small::each_of<R, C>([&](std::size_t r, std::size_t c) { return a(r, c) - b(r, c); });
}
template <std::size_t R, std::size_t C>
Mat<R, C> operator-(const Mat<R, C>& m) {
  return small::each_of<R, C>([&](std::size_t r, std::size_t c) { return -m(r, c); });
}
/// @}
/// Each element times, or by, the value.
/// @{
template <std::size_t R, std::size_t C>
Mat<R, C> operator*(const Operand& s, const Mat<R, C>& m) {
  return small::each_of<R, C>([&](std::size_t r, std::size_t c) { return s * m(r, c); });
}
template <std::size_t R, std::size_t C>
Mat<R, C> operator*(const Mat<R, C>& m, const Operand& s) {
  return small::each_of<R, C>([&](std::size_t r, std::size_t c) { return m(r, c) * s; });
}
template <std::size_t R, std::size_t C>
Mat<R, C> operator/(const Mat<R, C>& m, const Operand& s) {
  return small::each_of<R, C>([&](std::size_t r, std::size_t c) { return m(r, c) / s; });
}
/// @}
/// The product of matrices, or of a matrix and a column.
/// @{
template <std::size_t R, std::size_t K, std::size_t C>
Mat<R, C> operator*(const Mat<R, K>& a, const Mat<K, C>& b) {
  return small::each_of<R, C>([&](std::size_t r, std::size_t c) {
    Value sum = a(r, 0) * b(0, c);
    for (std::size_t k = 1; k < K; ++k) sum = sum + a(r, k) * b(k, c);
    return sum;
  });
}
template <std::size_t R, std::size_t C>
Vec<R> operator*(const Mat<R, C>& m, const Vec<C>& v) {
  return small::each<R>([&](std::size_t r) { return dot(m.rows[r], v); });
}
/// @}
/// Rows as columns.
template <std::size_t R, std::size_t C>
Mat<C, R> transpose(const Mat<R, C>& m) {
  return small::each_of<C, R>([&](std::size_t r, std::size_t c) { return m(c, r); });
}
/// The matrix of all products `a[r] * b[c]`.
template <std::size_t R, std::size_t C>
Mat<R, C> outer(const Vec<R>& a, const Vec<C>& b) {
  return small::each_of<R, C>([&](std::size_t r, std::size_t c) { return a[r] * b[c]; });
}
/// The sum of products of elements, the first row first.
template <std::size_t R, std::size_t C>
Value dot(const Mat<R, C>& a, const Mat<R, C>& b) {
  Value sum = dot(a.rows[0], b.rows[0]);
  for (std::size_t r = 1; r < R; ++r) sum = sum + dot(a.rows[r], b.rows[r]);
  return sum;
}
/// The norm of Frobenius, sqrt(dot(m, m)); its derivative at zero is not finite.
template <std::size_t R, std::size_t C>
Value length(const Mat<R, C>& m) {
  return sqrt(dot(m, m));
}
/// The sum of the diagonal.
template <std::size_t N>
Value trace(const Mat<N>& m) {
  Value sum = m(0, 0);
  for (std::size_t k = 1; k < N; ++k) sum = sum + m(k, k);
  return sum;
}
/// By expansion along the first row: for the small matrices that this is meant for.
template <std::size_t N>
Value determinant(const Mat<N>& m) {
  if constexpr (N == 1) {
    return m(0, 0);
  } else {
    Value sum = m(0, 0) * determinant(small::minor_of(m, 0, 0));
    for (std::size_t c = 1; c < N; ++c) {
      const Value term = m(0, c) * determinant(small::minor_of(m, 0, c));
      sum = c % 2 == 0 ? sum + term : sum - term;
    }
    return sum;
  }
}
/// By cofactors, up to 4 by 4; not finite where the determinant is zero.
template <std::size_t N>
requires(N <= 4) Mat<N> inverse(const Mat<N>& m) {
  if constexpr (N == 1) {
    return small::each_of<1, 1>([&](std::size_t, std::size_t) { return 1 / m(0, 0); });
  } else {
    const auto cofactors = small::each_of<N, N>([&](std::size_t r, std::size_t c) {
      const Value minor = determinant(small::minor_of(m, r, c));
      return (r + c) % 2 == 0 ? minor : -minor;
    });
    const Value factor = 1 / dot(m.rows[0], cofactors.rows[0]);
    return factor * transpose(cofactors);
  }
}

// ---- complex numbers ----

/// re + i*im. Sums, products and quotients with values as well; conj, norm (the square of the magnitude), abs, arg, exp
/// and polar. The derivatives of abs and arg at zero are not finite.
struct Complex {
  /// The real part.
  Value re, im;  ///< The imaginary part.

  /// Parts that hold nothing.
  Complex() = default;
  /// re + i*im.
  Complex(const Operand& re, const Operand& im) : re(re.value), im(im.value) {}
  /// f(name, part) in place of both parts, whose names are `name_re` and `name_im`.
  template <class F>
  Complex with_each(const std::string& name, const F& f) const {
    Complex z;
    z.re = f(name + "_re", re);
    z.im = f(name + "_im", im);
    return z;
  }

  /// A value counts as one whose imaginary part is 0. A quotient by zero is not finite.
  /// @{
  friend Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }
  friend Complex operator-(const Complex& a) { return {-a.re, -a.im}; }
  friend Complex operator*(const Complex& a, const Complex& b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend Complex operator/(const Complex& a, const Complex& b) {
    const Value size = b.re * b.re + b.im * b.im;
    return {(a.re * b.re + a.im * b.im) / size, (a.im * b.re - a.re * b.im) / size};
  }
  friend Complex operator*(const Operand& s, const Complex& a) { return {s * a.re, s * a.im}; }
  friend Complex operator*(const Complex& a, const Operand& s) { return {a.re * s, a.im * s}; }
  friend Complex operator/(const Complex& a, const Operand& s) { return {a.re / s, a.im / s}; }
  friend Complex operator/(const Operand& s, const Complex& a) { return Complex(s, 0) / a; }
  friend Complex operator+(const Operand& s, const Complex& a) { return {s + a.re, a.im}; }
  friend Complex operator-(const Operand& s, const Complex& a) { return {s - a.re, -a.im}; }
  friend Complex operator+(const Complex& a, const Operand& s) { return {a.re + s, a.im}; }
  friend Complex operator-(const Complex& a, const Operand& s) { return {a.re - s, a.im}; }
  /// @}
};
/// re - i*im.
inline Complex conj(const Complex& a) { return {a.re, -a.im}; }
/// The square of the magnitude, as in std::norm.
inline Value norm(const Complex& a) { return a.re * a.re + a.im * a.im; }
/// The magnitude.
inline Value abs(const Complex& a) { return sqrt(norm(a)); }
/// The angle in radians, from -pi to pi.
inline Value arg(const Complex& a) { return atan2(a.im, a.re); }
/// e to the power of a.
inline Complex exp(const Complex& a) {
  const Value size = exp(a.re);
  return {size * cos(a.im), size * sin(a.im)};
}
/// The number of that magnitude and angle, in radians.
inline Complex polar(const Operand& size, const Operand& angle) { return {size * cos(angle), size * sin(angle)}; }

// ---- methods of the builder ----

template <SmallNumbers T>
T ProgramBuilder::let(const std::string& name, const T& numbers, SourceLocation where) {
  std::vector<std::string> names;
  std::vector<Value> values;
  numbers.with_each(name, [&](const std::string& each, const Value& value) {
    names.push_back(each);
    values.push_back(value);
    return value;
  });
  values = let(names, values, where);
  std::size_t next = 0;
  return numbers.with_each(name, [&](const std::string&, const Value&) { return values[next++]; });
}
template <SmallNumbers T>
void ProgramBuilder::save(const T& numbers, SourceLocation where) {
  numbers.with_each("", [&](const std::string&, const Value& value) { return save(Operand(value, where)), value; });
}
template <SmallNumbers T>
void ProgramBuilder::recompute(const T& numbers, SourceLocation where) {
  numbers.with_each("",
                    [&](const std::string&, const Value& value) { return recompute(Operand(value, where)), value; });
}

/// @}
}  // namespace loopgrad

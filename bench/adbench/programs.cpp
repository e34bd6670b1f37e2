#include "bench/adbench/programs.h"

#include "bench/adbench/data.h"

namespace adbench {

namespace lg = loopgrad;

namespace {

/// log(sum over k of exp(term[k])).
lg::Value log_sum_exp(lg::ProgramBuilder& p, const lg::ArrayHandle& term) {
  auto largest = p.scalar<double>("largest"), sum = p.scalar<double>("sum", 0), result = p.scalar<double>("result");
  largest = term(0);
  for (auto k : p.loop("k", 1, term.extent(0))) largest.max_with(term(k));
  for (auto k : p.loop("k", term.extent(0))) sum += exp(term(k) - largest);
  result = log(sum) + largest;
  return result;
}

/// Turns a point about an axis by the axis' length (Rodrigues); an axis of zeros turns nothing, but has a derivative.
lg::Vec<3> rotate(const lg::Vec<3>& axis, const lg::Vec<3>& point) {
  const lg::Value squared = dot(axis, axis), angle = sqrt(squared);
  const lg::Vec<3> unit = axis * (1.0 / angle);
  const lg::Vec<3> turned =
      point * cos(angle) + cross(unit, point) * sin(angle) + unit * (dot(unit, point) * (1.0 - cos(angle)));
  return select(squared != 0.0, turned, point + cross(axis, point));
}

/// An affine map as three rows of four; the last row is 0 0 0 1.
struct Affine {
  lg::Mat<3> linear;
  lg::Vec<3> shift;
};

Affine load(const lg::ArrayView& rows) {
  Affine a;
  for (int r = 0; r < 3; ++r) {
    const auto at = static_cast<std::size_t>(r);
    for (int c = 0; c < 3; ++c) a.linear(at, static_cast<std::size_t>(c)) = rows(r, c);
    a.shift[at] = rows(r, 3);
  }
  return a;
}

void store(const lg::ArrayView& rows, const Affine& a) {
  for (int r = 0; r < 3; ++r) {
    const auto at = static_cast<std::size_t>(r);
    for (int c = 0; c < 3; ++c) rows(r, c) = a.linear(at, static_cast<std::size_t>(c));
    rows(r, 3) = a.shift[at];
  }
}

Affine operator*(const Affine& a, const Affine& b) { return {a.linear * b.linear, a.linear * b.shift + a.shift}; }

/// Flexion, abduction, twist: turns about x, z and y, in the order z (y (x ..)).
lg::Mat<3> euler(const lg::Vec<3>& angles) {
  const lg::Value &x = angles[0], &z = angles[1], &y = angles[2];
  lg::Mat<3> about_x = lg::Mat<3>::identity(), about_y = about_x, about_z = about_x;
  about_x(1, 1) = about_x(2, 2) = cos(x), about_x(2, 1) = sin(x), about_x(1, 2) = -sin(x);
  about_y(0, 0) = about_y(2, 2) = cos(y), about_y(0, 2) = sin(y), about_y(2, 0) = -sin(y);
  about_z(0, 0) = about_z(1, 1) = cos(z), about_z(1, 0) = sin(z), about_z(0, 1) = -sin(z);
  return about_z * about_y * about_x;
}

/// The matrix that turns about an axis by its length; one of less than 0.0001 turns nothing.
lg::Mat<3> about(const lg::Vec<3>& axis) {
  const lg::Value norm = length(axis), s = sin(norm), c = cos(norm);
  const lg::Value x = axis[0] / norm, y = axis[1] / norm, z = axis[2] / norm;
  const lg::Vec<3> rows[] = {{x * x + (1.0 - x * x) * c, x * y * (1.0 - c) - z * s, x * z * (1.0 - c) + y * s},
                             {x * y * (1.0 - c) + z * s, y * y + (1.0 - y * y) * c, y * z * (1.0 - c) - x * s},
                             {x * z * (1.0 - c) - y * s, z * y * (1.0 - c) + x * s, z * z + (1.0 - z * z) * c}};
  const lg::Mat<3> identity = lg::Mat<3>::identity();
  lg::Mat<3> result;
  for (std::size_t r = 0; r < 3; ++r) result.rows[r] = select(norm < 0.0001, identity.rows[r], rows[r]);
  return result;
}

/// The angles of all bones, from those of the joints that move: of each finger the first after the root has two.
void to_pose(lg::ProgramBuilder& p, const lg::ArrayHandle& theta, const lg::ArrayHandle& pose) {
  for (auto [bone, axis] : p.loop({"bone", pose.extent(0)}, {"axis", 3})) pose(bone, axis) = 0.0;
  for (auto finger : p.loop("finger", kFingers)) {
    pose(2 + 4 * finger, 0) = theta(6 + 4 * finger);
    pose(2 + 4 * finger, 1) = theta(7 + 4 * finger);
    pose(3 + 4 * finger, 0) = theta(8 + 4 * finger);
    pose(4 + 4 * finger, 0) = theta(9 + 4 * finger);
  }
}

/// The place of every vertex of the skin.
lg::ArrayHandle skin(lg::ProgramBuilder& p, const lg::ArrayHandle& theta, const lg::Value& bones) {
  auto vertices = p.size("vertices");
  auto parent = p.input<int>("parent", {bones});
  auto base_relative = p.input<double>("base_relative", {bones, 3, 4});
  auto inverse_absolute = p.input<double>("inverse_absolute", {bones, 3, 4});
  auto base_position = p.input<double>("base_position", {vertices, 3});
  auto weight = p.input<double>("weight", {vertices, bones});
  auto side = p.input<double>("side", {});  // -1 for a mirrored hand
  p.in_range(parent, -1, bones);

  auto pose = p.local<double>("pose", {bones, 3});
  to_pose(p, theta, pose);
  auto absolute = p.local<double>("absolute", {bones, 3, 4}), transform = p.local<double>("transform", {bones, 3, 4});
  for (auto bone : p.loop("bone", bones)) {
    const Affine turned{euler(lg::load<3>(pose.row(bone))), lg::Vec<3>::all(0.0)};
    const Affine relative = load(base_relative.row(bone)) * turned;
    auto chained = p.local<double>("chained", {3, 4});  // whole before `absolute` is written, which it reads
    p.when(parent(bone) < 0, [&] { store(chained, relative); }).otherwise([&] {
      store(chained, load(absolute.row(parent(bone))) * relative);
    });
    store(absolute.row(bone), load(chained));
  }
  for (auto bone : p.loop("bone", bones))
    store(transform.row(bone), load(absolute.row(bone)) * load(inverse_absolute.row(bone)));

  auto turn = p.local<double>("turn", {3, 3});
  lg::store(turn, about(lg::load<3>(theta)));
  auto position = p.local<double>("position", {vertices, 3});
  for (auto v : p.loop("v", vertices)) {
    auto posed = p.local<double>("posed", {3});
    const lg::Vec<3> base = lg::load<3>(base_position.row(v));
    for (auto axis : p.loop("axis", 3)) {
      posed(axis) = 0.0;
      for (auto bone : p.loop("bone", bones))
        posed(axis) +=
            weight(v, bone) * (dot(lg::load<3>(transform.row(bone).row(axis)), base) + transform(bone, axis, 3));
    }
    posed(0) *= side();
    for (auto axis : p.loop("axis", 3)) {
      position(v, axis) = theta(3 + axis);
      for (auto c : p.loop("c", 3)) position(v, axis) += turn(axis, c) * posed(c);
    }
  }
  return position;
}

}  // namespace

lg::Program gmm_program() {
  lg::ProgramBuilder p("gmm");
  auto n = p.size("n"), d = p.size("d"), k_count = p.size("k");
  auto alphas = p.input<double>("alphas", {k_count}), means = p.input<double>("means", {k_count, d});
  auto icf = p.input<double>("icf", {k_count, d * (d + 1) / 2});
  auto x = p.input<double>("x", {n, d});
  auto constant = p.input<double>("constant", {}), squares = p.input<double>("squares", {}),
       logarithms = p.input<double>("logarithms", {});
  auto err = p.output<double>("err", {});

  // The matrices as matrices: below the diagonal they are given column by column.
  auto factor = p.local<double>("factor", {k_count, d, d}), sum_q = p.local<double>("sum_q", {k_count});
  for (auto k : p.loop("k", k_count)) {
    sum_q(k) = 0.0;
    for (auto r : p.loop("r", d)) {
      sum_q(k) += icf(k, r);
      factor(k, r, r) = exp(icf(k, r));
      for (auto c : p.loop("c", r)) factor(k, r, c) = icf(k, d + c * (2 * d - c - 1) / 2 + r - c - 1);
    }
  }
  err() = constant();
  for (auto i : p.loop("i", n)) {
    auto term = p.local<double>("term", {k_count});
    for (auto k : p.loop("k", k_count)) {
      auto squared = p.scalar<double>("squared", 0);
      for (auto r : p.loop("r", d)) {
        auto z = p.scalar<double>("z", 0);
        for (auto c : p.loop("c", r + 1)) z += factor(k, r, c) * (x(i, c) - means(k, c));
        squared += z * z;
      }
      term(k) = alphas(k) + sum_q(k) - 0.5 * squared;
    }
    err() += log_sum_exp(p, term);
  }
  err() -= lg::cast<double>(n) * log_sum_exp(p, alphas);
  for (auto k : p.loop("k", k_count)) {
    err() += logarithms() * sum_q(k);
    for (auto r : p.loop("r", d))
      for (auto c : p.loop("c", r + 1)) err() += squares() * factor(k, r, c) * factor(k, r, c);
  }
  return p.build();
}

lg::Program ba_program() {
  lg::ProgramBuilder p("ba");
  auto n = p.size("n"), m = p.size("m"), observations = p.size("p");
  auto camera = p.input<double>("camera", {n, kCameraParameters}), point = p.input<double>("point", {m, 3});
  auto weight = p.input<double>("weight", {observations}), feature = p.input<double>("feature", {observations, 2});
  auto camera_of = p.input<int>("camera_of", {observations}), point_of = p.input<int>("point_of", {observations});
  auto reprojection = p.output<double>("reprojection", {observations, 2});
  auto weight_error = p.output<double>("weight_error", {observations});
  p.in_range(camera_of, 0, n);
  p.in_range(point_of, 0, m);
  for (auto i : p.loop("i", observations)) {
    const lg::Vec<11> c = lg::load<11>(camera.row(camera_of(i)));
    const lg::Vec<3> seen =
        rotate({c[0], c[1], c[2]}, lg::load<3>(point.row(point_of(i))) - lg::Vec<3>(c[3], c[4], c[5]));
    const lg::Vec<2> plane(seen[0] / seen[2], seen[1] / seen[2]), centre(c[7], c[8]);
    const lg::Value squared = dot(plane, plane), distortion = 1.0 + c[9] * squared + c[10] * squared * squared;
    const lg::Vec<2> projected = plane * distortion * c[6] + centre;
    lg::store(reprojection.row(i), (projected - lg::load<2>(feature.row(i))) * weight(i));
    weight_error(i) = 1.0 - weight(i) * weight(i);
  }
  return p.build();
}

lg::Program hand_program(bool complicated) {
  lg::ProgramBuilder p(complicated ? "hand_complicated" : "hand");
  auto bones = p.size("bones"), points = p.size("points");
  auto theta = p.input<double>("theta", {kThetas});
  auto position = skin(p, theta, bones);
  auto correspondence = p.input<int>("correspondence", {points});
  auto point = p.input<double>("point", {points, 3});
  auto err = p.output<double>("err", {points, 3});
  if (!complicated) {
    p.in_range(correspondence, 0, position.extent(0));
    for (auto [i, axis] : p.loop({"i", points}, {"axis", 3}))
      err(i, axis) = point(i, axis) - position(correspondence(i), axis);
    return p.build();
  }
  auto triangles = p.size("triangles");
  auto corner = p.input<int>("corner", {triangles, 3});
  auto us = p.input<double>("us", {points, 2});
  p.in_range(correspondence, 0, triangles);
  p.in_range(corner, 0, position.extent(0));
  for (auto i : p.loop("i", points)) {
    auto triangle = correspondence(i);
    for (auto axis : p.loop("axis", 3))
      err(i, axis) = point(i, axis) -
                     (us(i, 0) * position(corner(triangle, 0), axis) + us(i, 1) * position(corner(triangle, 1), axis) +
                      (1.0 - us(i, 0) - us(i, 1)) * position(corner(triangle, 2), axis));
  }
  return p.build();
}

lg::Program lstm_program() {
  lg::ProgramBuilder p("lstm");
  auto layers = p.size("l"), characters = p.size("c"), bits = p.size("b");
  auto main = p.input<double>("main", {layers, 2, 4, bits}), extra = p.input<double>("extra", {3, bits});
  auto state = p.input<double>("state", {layers, 2, bits}), sequence = p.input<double>("sequence", {characters, bits});
  auto loss = p.output<double>("loss", {});
  auto hidden = p.local<double>("hidden", {layers, bits}), cell = p.local<double>("cell", {layers, bits});
  for (auto [layer, i] : p.loop({"layer", layers}, {"i", bits})) {
    hidden(layer, i) = state(layer, 0, i);
    cell(layer, i) = state(layer, 1, i);
  }
  loss() = 0.0;
  for (auto t : p.loop("t", characters - 1)) {
    auto in = p.local<double>("in", {bits});
    for (auto i : p.loop("i", bits)) in(i) = sequence(t, i) * extra(0, i);
    for (auto layer : p.loop("layer", layers)) {
      for (auto i : p.loop("i", bits)) {
        const auto gate = [&](int of, const lg::Value& x) { return x * main(layer, 0, of, i) + main(layer, 1, of, i); };
        auto forget = p.let("forget", sigmoid(gate(0, in(i))));
        auto in_gate = p.let("in_gate", sigmoid(gate(1, hidden(layer, i))));
        auto out_gate = p.let("out_gate", sigmoid(gate(2, in(i))));
        auto change = p.let("change", tanh(gate(3, hidden(layer, i))));
        cell(layer, i) = cell(layer, i) * forget + in_gate * change;
        hidden(layer, i) = out_gate * tanh(cell(layer, i));
        in(i) = hidden(layer, i);
      }
    }
    auto predicted = p.local<double>("predicted", {bits});
    auto sum = p.scalar<double>("sum", 2);
    for (auto i : p.loop("i", bits)) {
      predicted(i) = in(i)*extra(1, i) + extra(2, i);
      sum += exp(predicted(i));
    }
    for (auto i : p.loop("i", bits)) loss() += sequence(t + 1, i) * (predicted(i) - log(sum));
  }
  loss() = -loss() / lg::cast<double>((characters - 1) * bits);
  return p.build();
}

lg::Program square_program() {
  lg::ProgramBuilder p("square");
  auto x = p.input<double>("x", {});
  auto y = p.output<double>("y", {});
  y() = x() * x();
  return p.build();
}

}  // namespace adbench

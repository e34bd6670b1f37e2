#include "tests/gradient/jacobian.h"

#include "backends/interpreter/interpreter.h"
#include "dsl/ir/printer.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>

namespace loopgrad::test {
namespace {

using backend::BindOptions;
using Arrays = std::map<std::string, HostArray>;
using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

constexpr double tolerance = 1e-9;
constexpr double difference_step = 1e-5, difference_tolerance = 1e-5;

Arguments views(const Arrays& arrays) {
  Arguments result;
  for (const auto& [name, array] : arrays) result[name] = array.view();
  return result;
}

/// All sizes: as given.
backend::SizeValues size_values(const ir::Program& program, const Sizes& sizes) {
  backend::SizeValues values;
  for (const ir::Symbol& s : program.sizes) {
    const auto it = sizes.find(s.name);
    if (it != sizes.end()) values[s] = it->second;
  }
  return values;
}

HostArray make(const ir::Array& array, const backend::SizeValues& sizes) {
  return HostArray(is_float(array->type) ? ScalarType::F64 : array->type, backend::shape_of(array, sizes));
}

class Checker {
 public:
  Checker(const Program& program, const Inputs& inputs) : program_(program), inputs_(inputs) {
    const auto sizes = size_values(program.ir(), inputs.sizes);
    for (const ir::Array& array : program.ir().arrays) {
      HostArray a = make(array, sizes);
      const auto given = inputs.values.find(array->name);
      if (given != inputs.values.end()) {
        for (std::int64_t i = 0; i < a.size(); ++i) a.set(i, given->second.at(i));
      } else if (array->role != ir::ArrayRole::Output) {
        randomise(a);
      }
      start_[array->name] = a;
    }
  }

  AssertionResult check() {
    Arrays primal = copy(start_);
    run(program_, primal);
    for (const Variant variant : {Variant::NaiveTape, Variant::Restructured}) {
      const AssertionResult result = check_variant(variant, primal, 0);
      if (!result) return result;
    }
    // As little memory as there is a way for, and about half of what the tape takes.
    for (const std::int64_t most : {std::int64_t{1}, tape_bytes_ / 2 + 1}) {
      const AssertionResult result = check_variant(Variant::Restructured, primal, most);
      if (!result) return result;
    }
    return AssertionSuccess();
  }

 private:
  /// `most_bytes`: of the tape; 0: no limit.
  AssertionResult check_variant(Variant variant, const Arrays& primal, std::int64_t most_bytes) {
    GradientOptions options = inputs_.options;
    options.variant = variant;
    options.max_tape_bytes = most_bytes;
    const Gradient gradient = differentiate(program_, options);
    const std::string text =
        fmt::format("\nvariant {}\n{}\n{}", name_of(variant), gradient.forward.str(), gradient.backward.str());
    Sizes sizes = inputs_.sizes;
    measure(gradient.sizing, sizes);

    backend::ValueStack stack;
    Arrays state = copy(start_);
    add_missing(gradient.forward, sizes, state, ir::ArrayRole::Tape);
    run(gradient.forward, state, &stack, sizes);
    for (const auto& [name, array] : primal) {
      if (std::memcmp(array.data(), state.at(name).data(), array.bytes()) != 0)
        return AssertionFailure() << "forward changes the primal result '" << name << "'" << text;
    }

    Arrays seeds = copy(seeds_);
    if (most_bytes == 0) add_gradients(gradient.backward, sizes, seeds = {});
    Arrays given = copy(seeds);
    Arrays before = copy(state);
    for (const auto& [name, array] : seeds) state[name] = array;
    run(gradient.backward, state, &stack, sizes);
    if (!stack.entries.empty()) return AssertionFailure() << "the stack is not empty after backward" << text;
    for (const auto& [name, array] : before) {
      if (std::memcmp(array.data(), state.at(name).data(), array.bytes()) != 0)
        return AssertionFailure() << "backward changed '" << name << "'" << text;
    }
    if (variant == Variant::Restructured && most_bytes > 0) {
      const AssertionResult same = compare_bits(given, state);
      return same ? same : AssertionFailure() << same.message() << " with a budget of " << most_bytes << text;
    }
    seeds_ = copy(given);
    for (const auto& [name, seed] : given) unlimited_[name] = state.at(name);
    for (const auto& [name, array] : before)
      if (!primal.count(name)) tape_bytes_ += static_cast<std::int64_t>(array.bytes());
    const AssertionResult result = compare(given, state);
    return result ? result : AssertionFailure() << result.message() << text;
  }

  /// With the gradient that has all of its tape.
  AssertionResult compare_bits(const Arrays& gradients, const Arrays& state) const {
    for (const auto& [name, seed] : gradients) {
      const HostArray &expected = unlimited_.at(name), &found = state.at(name);
      if (std::memcmp(expected.data(), found.data(), found.bytes()) == 0) continue;
      for (std::int64_t k = 0; k < found.size(); ++k)
        if (expected.get(k) != found.get(k))
          return AssertionFailure() << fmt::format("{}[{}] is {:.17g}, and {:.17g} without a budget", name, k,
                                                   found.get(k), expected.get(k));
    }
    return AssertionSuccess();
  }

  /// Every element of every gradient against the directional derivative along its unit vector.
  AssertionResult compare(const Arrays& seeds, const Arrays& result) {
    const Program forward_mode = tangent(program_, inputs_.options);
    std::map<std::string, ir::ArrayRole> roles;
    for (const ir::Array& a : forward_mode.ir().arrays) roles[a->name] = a->role;
    std::map<std::string, std::vector<double>> direction;
    double along = 0;
    for (const ir::Array& t : forward_mode.ir().arrays) {
      if (t->name.rfind("t_", 0) != 0 || t->role == ir::ArrayRole::Output) continue;
      const std::string name = t->name.substr(2);
      const HostArray& d = result.at("d_" + name);
      for (std::int64_t k = 0; k < d.size(); ++k) {
        const double expected = directional(forward_mode, seeds, [&](const std::string& array, std::int64_t i) {
          return array == name && i == k ? 1.0 : 0.0;
        });
        const double found = d.get(k);
        if (!(std::abs(found - expected) <= tolerance * (1 + std::abs(expected))))
          return AssertionFailure() << fmt::format("d_{}[{}] is {:.12g}, forward mode gives {:.12g}", name, k, found,
                                                   expected);
        direction[name].push_back(uniform_(random_) - 0.75);
        along += direction[name].back() * found;
      }
    }
    const double difference = central_difference(seeds, direction);
    if (!(std::abs(difference - along) <= difference_tolerance * (1 + std::abs(along))))
      return AssertionFailure() << fmt::format(
                 "the gradient gives {:.9g} along a random direction, differences give {:.9g}", along, difference);
    return AssertionSuccess();
  }

  /// sum over outputs of seed * tangent.
  template <class Direction>
  double directional(const Program& forward_mode, const Arrays& seeds, const Direction& direction) {
    Arrays state = copy(start_);
    const auto sizes = size_values(forward_mode.ir(), inputs_.sizes);
    for (const ir::Array& t : forward_mode.ir().arrays) {
      if (t->name.rfind("t_", 0) != 0) continue;
      HostArray a = make(t, sizes);
      for (std::int64_t i = 0; i < a.size() && t->role != ir::ArrayRole::Output; ++i)
        a.set(i, direction(t->name.substr(2), i));
      state[t->name] = a;
    }
    run(forward_mode, state);
    double sum = 0;
    for (const auto& [name, seed] : seeds) {
      const auto t = state.find("t_" + name.substr(2));
      if (t == state.end() || !is_seed(name)) continue;
      for (std::int64_t i = 0; i < seed.size(); ++i) sum += seed.get(i) * t->second.get(i);
    }
    return sum;
  }

  double central_difference(const Arrays& seeds, const std::map<std::string, std::vector<double>>& direction) {
    double values[2];
    for (const int side : {0, 1}) {
      Arrays state = copy(start_);
      for (const auto& [name, d] : direction)
        for (std::int64_t i = 0; i < state.at(name).size(); ++i)
          state.at(name).set(i, state.at(name).get(i) + (side ? 1 : -1) * difference_step * d[i]);
      run(program_, state);
      values[side] = 0;
      for (const auto& [name, seed] : seeds) {
        if (!is_seed(name)) continue;
        const HostArray& y = state.at(name.substr(2));
        for (std::int64_t i = 0; i < seed.size(); ++i) values[side] += seed.get(i) * y.get(i);
      }
    }
    return (values[1] - values[0]) / (2 * difference_step);
  }

  /// Whether d_<array> is an incoming gradient (of an output or in-out that `of` asks for).
  bool is_seed(const std::string& name) const {
    const ir::Array array = ir::find_array(program_.ir(), name.substr(2));
    if (!array || array->role == ir::ArrayRole::Input) return false;
    const auto& of = inputs_.options.of;
    return of.empty() || std::find(of.begin(), of.end(), array->name) != of.end();
  }

  void measure(const Program& sizing, Sizes& sizes) {
    if (sizing.ir().arrays.empty()) return;
    Arrays state;
    for (const ir::Array& a : sizing.ir().arrays) {
      const bool output = a->role == ir::ArrayRole::Output;
      state[a->name] = output ? make(a, size_values(sizing.ir(), sizes)) : start_.at(a->name);
    }
    run(sizing, state, nullptr, sizes);
    for (const ir::Array& a : sizing.ir().arrays)
      if (a->role == ir::ArrayRole::Output) sizes[a->name] = static_cast<std::int64_t>(state.at(a->name).get(0));
  }

  void add_missing(const Program& program, const Sizes& sizes, Arrays& state, ir::ArrayRole role) {
    const auto values = size_values(program.ir(), sizes);
    for (const ir::Array& a : program.ir().arrays)
      if (a->role == role && !state.count(a->name)) state[a->name] = make(a, values);
  }

  void add_gradients(const Program& backward, const Sizes& sizes, Arrays& seeds) {
    const auto values = size_values(backward.ir(), sizes);
    for (const ir::Array& a : backward.ir().arrays) {
      if (a->name.rfind("d_", 0) != 0 || a->role == ir::ArrayRole::Tape) continue;
      HostArray d = make(a, values);
      randomise(d);  // garbage in results: backward must not read them
      seeds[a->name] = d;
    }
  }

  void run(const Program& program, Arrays& state, backend::ValueStack* stack = nullptr, const Sizes& sizes = {}) {
    BindOptions options;
    options.ignore_unknown = true;
    options.all_f64 = true;
    backend::InterpreterOptions how;
    how.f64 = true;
    how.checked = true;
    const Sizes& used = sizes.empty() ? inputs_.sizes : sizes;
    Sizes known;
    for (const ir::Symbol& s : program.ir().sizes) known[s.name] = used.at(s.name);
    backend::interpret(program.ir(), backend::bind(program.ir(), views(state), known, options), how, stack);
  }

  void randomise(HostArray& a) {
    for (std::int64_t i = 0; i < a.size(); ++i) a.set(i, uniform_(random_));
  }

  static Arrays copy(const Arrays& arrays) {
    Arrays result;
    for (const auto& [name, a] : arrays) {
      HostArray b(a.type(), a.shape());
      if (a.bytes() > 0) std::memcpy(b.data(), a.data(), a.bytes());
      result[name] = b;
    }
    return result;
  }

  const Program& program_;
  const Inputs& inputs_;
  Arrays start_;
  Arrays seeds_, unlimited_;     // of the last backward run without a budget: what it was given and what it left
  std::int64_t tape_bytes_ = 0;  // of the runs without one
  std::mt19937_64 random_{42};
  std::uniform_real_distribution<double> uniform_{0.25, 1.25};
};

}  // namespace

AssertionResult gradient_is_right(const Program& program, const Inputs& inputs) {
  try {
    const AssertionResult result = Checker(program, inputs).check();
    return result ? result : AssertionFailure() << program.str() << "\n" << result.message();
  } catch (const Error& e) {
    return AssertionFailure() << program.str() << "\n" << e.what();
  }
}

std::int64_t tape_bytes(const Program& program, const Sizes& sizes, const GradientOptions& options) {
  const Gradient gradient = differentiate(program, options);
  const auto values = size_values(gradient.forward.ir(), sizes);
  std::int64_t bytes = 0;
  for (const ir::Array& a : gradient.forward.ir().arrays) {
    if (a->role == ir::ArrayRole::Tape)
      bytes += element_count(backend::shape_of(a, values), a->type, a->name) * bytes_of(a->type);
  }
  return bytes;
}

}  // namespace loopgrad::test

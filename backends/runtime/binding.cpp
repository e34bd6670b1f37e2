#include "backends/runtime/binding.h"

#include "backends/runtime/solve_sizes.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

namespace loopgrad::backend {
namespace {

class Binder {
 public:
  Binder(const ir::Program& program, const Arguments& arguments, const Sizes& sizes, const BindOptions& options,
         const BindPlan& plan)
      : program_(program), arguments_(arguments), given_sizes_(sizes), options_(options), plan_(plan) {}

  Binding run() {
    check_names();
    for (const ir::Array& array : program_.arrays) binding_.arrays.push_back(find_view(array));
    find_sizes();
    for (std::size_t i = 0; i < program_.arrays.size(); ++i) check_memory(program_.arrays[i], binding_.arrays[i]);
    check_overlaps();
    return std::move(binding_);
  }

 private:
  [[noreturn]] void fail(const ir::Array& array, ErrorCode code, std::string message, std::string hint) const {
    throw UsageError({code, std::move(message), program_.name, "", array->name, std::move(hint), array->location});
  }

  void find_sizes() {
    const Sizes given = known_sizes();
    if (auto sizes = plan_.known_sizes(binding_.arrays, given)) {
      binding_.sizes = *std::move(sizes);
      return;
    }
    binding_.sizes = solve_sizes(program_, binding_.arrays, given);
    // Extents that are a size alone come first: their errors say what is wrong most directly.
    for (const bool lone : {true, false}) {
      for (std::size_t i = 0; i < program_.arrays.size(); ++i) {
        check_extents(program_.arrays[i], binding_.arrays[i], lone);
      }
    }
    plan_.remember(binding_.arrays, given, binding_.sizes);
  }

  void check_names() const {
    if (options_.ignore_unknown) return;
    for (const auto& [name, view] : arguments_) {
      if (find_array(program_, name)) continue;
      std::vector<std::string> known;
      for (const ir::Array& array : program_.arrays) known.push_back(array->name);
      throw UsageError({.code = ErrorCode::BadArgument,
                        .message = fmt::format("there is no array '{}'", name),
                        .program = program_.name,
                        .array = name,
                        .hint = fmt::format("the arrays are: {}", fmt::join(known, ", ")),
                        .location = program_.location});
    }
  }

  Sizes known_sizes() const {
    if (!options_.ignore_unknown) return given_sizes_;
    Sizes known;
    for (const ir::Symbol& symbol : program_.sizes) {
      const auto found = given_sizes_.find(symbol.name);
      if (found != given_sizes_.end()) known.insert(*found);
    }
    return known;
  }

  /// The argument for `array` with type, rank, own extents and strides checked: all that needs no sizes.
  View find_view(const ir::Array& array) const {
    const auto found = arguments_.find(array->name);
    if (found == arguments_.end()) fail(array, ErrorCode::BadArgument, "the argument is missing", "pass a view of it");
    View view = found->second;
    const ScalarType type = options_.all_f64 && is_float(array->type) ? ScalarType::F64 : array->type;
    if (view.type != type) {
      fail(array, ErrorCode::BadType,
           fmt::format("the argument has type {}, expected {}", name_of(view.type), name_of(type)),
           "convert the argument, or declare the array with its type");
    }
    if (const std::size_t rank = array->callers_shape().size(); view.shape.size() != rank) {
      fail(array, ErrorCode::BadShape,
           fmt::format("the argument has {} dimensions, expected {}", view.shape.size(), rank),
           "give one extent for each declared dimension");
    }
    count_elements(array, view);
    check_strides(array, view);
    view.strides.clear();
    return view;
  }

  std::int64_t count_elements(const ir::Array& array, const View& view) const {
    try {
      return element_count(view.shape, view.type, array->name);
    } catch (const UsageError& e) {  // add what only this class knows
      fail(array, e.code(),
           fmt::format("the argument's extents [{}] are negative or its bytes do not fit in 64 bits",
                       fmt::join(view.shape, ", ")),
           "check the shape of the view");
    }
  }

  void check_strides(const ir::Array& array, const View& view) const {
    if (view.strides.empty() || count_elements(array, view) == 0) return;
    std::int64_t expected = 1;
    bool contiguous = view.strides.size() == view.shape.size();
    for (std::size_t d = view.shape.size(); contiguous && d-- > 0;) {
      contiguous = view.shape[d] == 1 || view.strides[d] == expected;  // the stride of a single element is never used
      expected *= view.shape[d];
    }
    if (contiguous) return;
    fail(array, ErrorCode::BadLayout,
         fmt::format("the argument with extents [{}] and strides [{}] is not contiguous", fmt::join(view.shape, ", "),
                     fmt::join(view.strides, ", ")),
         "copy it to row-major memory without gaps");
  }

  void check_extents(const ir::Array& array, const View& view, bool lone) const {
    const std::vector<ir::Expr>& shape = array->callers_shape();
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      if ((shape[d].kind() == ir::Kind::Var) != lone) continue;
      const auto extent = try_evaluate(shape[d], binding_.sizes);
      if (extent == view.shape[d]) continue;
      std::vector<std::string> values;
      for (const auto& [symbol, value] : binding_.sizes) values.push_back(fmt::format("{} = {}", symbol.name, value));
      const std::string declared = ir::print(shape[d]);
      const bool says_all = values.empty() || (lone && extent);  // "n = 3 with n = 3"
      const std::string with = says_all ? "" : fmt::format(" with {}", fmt::join(values, ", "));
      if (!extent) {
        fail(array, ErrorCode::BadSize, fmt::format("extent {} of dimension {} overflows{}", declared, d, with),
             "use smaller sizes");
      }
      const std::string expected =
          declared == std::to_string(*extent) ? declared : fmt::format("{} = {}", declared, *extent);
      fail(array, *extent < 0 ? ErrorCode::BadSize : ErrorCode::BadShape,
           fmt::format("the argument has extent {} in dimension {}, expected {}{}", view.shape[d], d, expected, with),
           "pass arrays and sizes that agree");
    }
  }

  void check_memory(const ir::Array& array, const View& view) const {
    if (count_elements(array, view) == 0) return;
    if (!view.data) fail(array, ErrorCode::BadArgument, "the argument's data is null", "pass allocated memory");
    if (reinterpret_cast<std::uintptr_t>(view.data) % bytes_of(view.type) != 0) {
      fail(array, ErrorCode::BadLayout,
           fmt::format("the argument's data is not aligned to its element size {}", bytes_of(view.type)),
           "copy it to aligned memory");
    }
  }

  void check_overlaps() const {
    for (std::size_t i = 0; i < program_.arrays.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (plan_.is_written(i) || plan_.is_written(j)) check_overlap(j, i);
  }

  /// By its name; there is no such array in the user's program.
  static bool is_derivative(const ir::Array& array) {
    return array->name.starts_with("d_") || array->name.starts_with("t_");
  }

  void check_overlap(std::size_t first, std::size_t second) const {
    const ir::Array &a = program_.arrays[first], &b = program_.arrays[second];
    const View &view_a = binding_.arrays[first], &view_b = binding_.arrays[second];
    const auto bytes = [&](const ir::Array& array, const View& view) {
      return static_cast<std::uintptr_t>(count_elements(array, view)) * bytes_of(view.type);
    };
    const auto begin_a = reinterpret_cast<std::uintptr_t>(view_a.data), end_a = begin_a + bytes(a, view_a);
    const auto begin_b = reinterpret_cast<std::uintptr_t>(view_b.data), end_b = begin_b + bytes(b, view_b);
    if (begin_a == end_a || begin_b == end_b || begin_a >= end_b || begin_b >= end_a) return;
    if (!plan_.may_alias(first, second)) {
      fail(b, ErrorCode::Aliasing,
           fmt::format("the argument shares memory with '{}' and one of them is written", a->name),
           is_derivative(a) || is_derivative(b)
               ? "pass separate memory"
               : fmt::format("pass separate memory, or state may_alias({}, {}) in the program", a->name, b->name));
    }
    // An element of one that is a part of an element of the other has no meaning in the language.
    if (view_a.type != view_b.type || (begin_a - begin_b) % bytes_of(view_a.type) != 0) {
      fail(b, ErrorCode::Aliasing,
           fmt::format("the argument shares memory with '{}', but not whole elements of one "
                       "type",
                       a->name),
           "pass separate memory");
    }
  }

  const ir::Program& program_;
  const Arguments& arguments_;
  const Sizes& given_sizes_;
  const BindOptions& options_;
  const BindPlan& plan_;
  Binding binding_;
};

/// Inputs never are written; tapes only in the program that fills them.
std::set<ir::Array> written_arrays(const ir::Program& program) {
  std::set<ir::Array> written;
  for (const ir::Array& array : program.arrays) {
    if (array->role == ir::ArrayRole::Output || array->role == ir::ArrayRole::InOut) written.insert(array);
  }
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    if (const auto* assign = s.as<ir::Assign>()) written.insert(assign->array);
    if (const auto* reduce = s.as<ir::Reduce>()) written.insert(reduce->array);
    if (const auto* pop = s.as<ir::Pop>()) written.insert(pop->array);
  });
  return written;
}

}  // namespace

BindPlan::BindPlan(const ir::Program& program) {
  const std::set<ir::Array> written = written_arrays(program);
  std::map<ir::Array, std::size_t> positions;
  for (const ir::Array& array : program.arrays) {
    positions[array] = written_.size();
    written_.push_back(written.count(array) > 0);
  }
  for (const ir::Fact& fact : program.facts) {
    if (fact.kind != ir::FactKind::MayAlias) continue;
    const auto a = positions.find(fact.array), b = positions.find(fact.other);
    if (a != positions.end() && b != positions.end()) aliases_.insert(std::minmax(a->second, b->second));
  }
}

std::optional<SizeValues> BindPlan::known_sizes(const std::vector<View>& arrays, const Sizes& given) const {
  std::shared_ptr<const Last> last;
  {
    std::lock_guard lock(mutex_);
    last = last_;
  }
  if (!last || last->given != given) return std::nullopt;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (last->shapes[i] != arrays[i].shape) return std::nullopt;
  return last->sizes;
}

void BindPlan::remember(const std::vector<View>& arrays, const Sizes& given, const SizeValues& sizes) const {
  auto last = std::make_shared<Last>(Last{{}, given, sizes});
  for (const View& array : arrays) last->shapes.push_back(array.shape);
  std::lock_guard lock(mutex_);
  last_ = std::move(last);
}

Binding bind(const ir::Program& program, const Arguments& arguments, const Sizes& sizes, const BindOptions& options) {
  if (options.plan) return Binder(program, arguments, sizes, options, *options.plan).run();
  return Binder(program, arguments, sizes, options, BindPlan(program)).run();
}

}  // namespace loopgrad::backend

#include "tools/cli/tape_table.h"

#include "backends/runtime/solve_sizes.h"
#include "dsl/ir/visit.h"
#include "tools/cli/table.h"
#include "tools/cli/work_counter.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace loopgrad::cli {
namespace {

const Arrays no_inputs;

/// What the programs do with each array, by name.
class Traffic {
 public:
  Traffic(const ir::Program& program, const Sizes& sizes)
      : counter_(program, sizes, no_inputs, WorkCounter::Unknown::Likely), cost_(counter_.cost(program.body)) {
    for (const ir::Array& array : program.arrays) arrays_[array->name] = array;
  }

  std::optional<double> read(const std::string& name) const { return bytes_of(name, cost_.loads); }
  std::optional<double> written(const std::string& name) const { return bytes_of(name, cost_.stores); }
  /// Of all of it.
  std::optional<double> size(const std::string& name) const {
    const auto array = arrays_.find(name);
    return array == arrays_.end() ? std::nullopt : std::optional(counter_.bytes_of(array->second));
  }

 private:
  std::optional<double> bytes_of(const std::string& name, const std::map<std::int64_t, double>& counts) const {
    const auto array = arrays_.find(name);
    if (array == arrays_.end()) return std::nullopt;
    const auto count = counts.find(array->second->id);
    const auto size = static_cast<double>(loopgrad::bytes_of(array->second->type));
    return count == counts.end() ? 0 : count->second * size;
  }

  WorkCounter counter_;
  Cost cost_;
  std::map<std::string, ir::Array> arrays_;
};

/// Bytes of a tape as far as sizes decide.
std::optional<double> bytes_of_tape(const ir::Array& array, const backend::SizeValues& values) {
  double bytes = static_cast<double>(loopgrad::bytes_of(array->type));
  for (const ir::Expr& extent : array->shape) {
    bool is_known = true;  // not so where data decide
    ir::walk(extent, [&](const ir::Expr& e) {
      if (const auto* size = e.as<ir::Var>()) is_known &= values.count(size->symbol) > 0;
    });
    if (!is_known) return std::nullopt;
    const auto value = backend::try_evaluate(extent, values);
    if (!value) return std::nullopt;
    bytes *= static_cast<double>(*value);
  }
  return bytes;
}

std::string formula_of(const std::string& elements, ScalarType type) {
  const auto size = loopgrad::bytes_of(type);
  if (elements == "1") return std::to_string(size);
  if (size == 1) return elements;
  const bool is_sum = elements.find(' ') != std::string::npos && elements.find('(') != 0;
  return is_sum ? fmt::format("{}*({})", size, elements) : fmt::format("{}*{}", size, elements);
}

/// A reason of the tape plan names both prices: "8 bytes moved in place of 20 operations each time, or of ..".
std::string alternative_in(const std::string& reason) {
  if (reason.find("cannot be computed again") != std::string::npos) return "none: it cannot be computed again";
  const std::string words = "in place of ";
  const std::size_t at = reason.find(words);
  if (at == std::string::npos) return {};
  const std::size_t end = std::min(reason.find(": ", at), reason.size());
  return reason.substr(at + words.size(), end - at - words.size());
}

std::string how_of(const TapeDecision& d) {
  if (d.decision == "direct") return "read";
  return d.decision == "recomputed" ? "computed again" : "saved";
}

std::string name_before_index(const std::string& element) { return element.substr(0, element.find('[')); }

std::vector<TapeRow> grouped(const Report& report) {
  std::vector<TapeRow> rows;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> known;
  for (const TapeDecision& d : report.tape) {
    const std::string array = d.elements.empty() ? "" : name_before_index(d.storage);
    const auto [row, is_new] = known.emplace(std::tuple(d.value, d.decision, array), rows.size());
    if (is_new) {
      TapeRow made;
      made.value = d.value;
      made.where = d.where;
      made.how = how_of(d);
      made.decision = d.decision;
      made.storage = d.storage;
      made.array = made.how == "read" ? name_before_index(d.value) : array;
      made.elements = d.elements;
      made.reason = d.reason;
      made.alternative = alternative_in(d.reason);
      rows.push_back(std::move(made));
    }
    rows[row->second].lines.insert(d.where.str());
  }
  return rows;
}

}  // namespace

std::vector<TapeRow> tape_table(const Gradient& gradient, const Sizes& sizes) {
  std::vector<TapeRow> rows = grouped(gradient.report);
  const Traffic forward(gradient.forward.ir(), sizes), backward(gradient.backward.ir(), sizes);
  backend::SizeValues values;
  for (const ir::Symbol& symbol : gradient.forward.ir().sizes)
    if (const auto size = sizes.find(symbol.name); size != sizes.end()) values[symbol] = size->second;
  std::map<std::string, ir::Array> tapes;
  for (const ir::Array& array : gradient.forward.ir().arrays)
    if (array->role == ir::ArrayRole::Tape) tapes[array->name] = array;
  std::set<std::string> counted;  // arrays whose traffic is in a row above
  for (TapeRow& row : rows) {
    const auto tape = tapes.find(row.array);
    if (row.how == "saved" && tape != tapes.end()) {
      row.bytes = bytes_of_tape(tape->second, values);
      row.formula = formula_of(row.elements, tape->second->type);
    }
    if (row.array.empty() || !counted.insert(row.array).second) continue;
    if (row.how == "saved") row.written = forward.written(row.array);
    row.read = backward.read(row.array);
    const auto size = forward.size(row.array);
    if (row.how == "read" && size) row.alternative = fmt::format("a copy: {}", human_bytes(*size));
  }
  const auto rank = [](const TapeRow& row) {
    return std::pair(row.how == "saved" ? 0 : row.how == "computed again" ? 1 : 2, -row.bytes.value_or(0));
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return rows;
}

double tape_bytes(const std::vector<TapeRow>& rows) {
  std::map<std::string, double> tapes;  // several rows may have one
  for (const TapeRow& row : rows)
    if (row.bytes) tapes[row.array] = *row.bytes;
  double sum = 0;
  for (const auto& [name, bytes] : tapes) sum += bytes;
  return sum;
}

}  // namespace loopgrad::cli

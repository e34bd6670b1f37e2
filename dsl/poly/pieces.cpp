#include "dsl/poly/pieces.h"

#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::poly {

namespace {

// isl operations: a statement of many cases takes some ten thousand.
constexpr unsigned long budget_per_piece = 500'000;

template <class Node>
std::uintptr_t address(const Node& node) {
  return reinterpret_cast<std::uintptr_t>(node.get());
}

bool is_in_facts(const ir::Program& program, const ir::Array& array) {
  return std::any_of(program.facts.begin(), program.facts.end(),
                     [&](const ir::Fact& fact) { return fact.array == array || fact.other == array; });
}

std::size_t statements_in(const Piece<Place>& piece) {
  if (!piece.known()) return 0;
  std::size_t count = 0;
  for (const auto& [key, statement] : piece.known()->statements)
    for (const auto& [depths, one] : statement.by_depths) count += one->known() != nullptr;
  for (const auto& [key, inner] : piece.known()->inside) count += statements_in(*inner);
  return count;
}

}  // namespace

void restart_for_piece(Context& context) { context.restart_budget_once(budget_per_piece); }

// Arrays of the program that its body writes.
const std::vector<ir::Array>& Pieces::written_by(const ir::Stmt& body) {
  const auto [found, is_new] = written_.try_emplace(body.get(), body, std::vector<ir::Array>());
  std::vector<ir::Array>& arrays = found->second.second;
  if (!is_new) return arrays;
  ir::walk_stmts(body, [&](const ir::Stmt& s) {
    if (auto* node = s.as<ir::Allocate>()) context_->id_of(node->array);
    if (auto* node = s.as<ir::Assign>()) arrays.push_back(node->array);
    if (auto* node = s.as<ir::Reduce>()) arrays.push_back(node->array);
    if (auto* node = s.as<ir::Pop>()) arrays.push_back(node->array);
  });
  std::sort(arrays.begin(), arrays.end());
  arrays.erase(std::unique(arrays.begin(), arrays.end()), arrays.end());
  return arrays;
}

Environment& Pieces::environment_of(const ir::Program& program) {
  context_->restart_without_budget();  // for names
  Environment& environment = named(program);
  context_->restart_budget();
  return environment;
}

Environment& Pieces::named(const ir::Program& program) {
  PieceKey key;
  for (const ir::Symbol& size : program.sizes) key.push_back(static_cast<std::uintptr_t>(size.id));
  key.push_back(0);
  for (const ir::Array& array : program.arrays) key.push_back(address(array));
  key.push_back(0);
  for (const ir::Fact& fact : program.facts) {
    key.push_back(static_cast<std::uintptr_t>(fact.kind));
    for (const ir::Array& array : {fact.array, fact.other}) key.push_back(address(array));
    for (const ir::Expr& bound : {fact.lower, fact.upper, fact.longest}) key.push_back(address(bound));
  }
  key.push_back(0);
  // Only of these does the model of a statement depend on whether another one writes them.
  std::vector<ir::Array> arrays = program.arrays;
  for (const ir::Array& array : written_by(program.body)) {
    if (!is_integer(array->type) && !is_in_facts(program, array)) continue;
    key.push_back(address(array));
    arrays.push_back(array);
  }
  const auto found = environments_.find(key);
  if (found != environments_.end()) return found->second;
  for (const ir::Symbol& size : program.sizes) context_->id_of(size);
  for (const ir::Array& array : program.arrays) context_->id_of(array);
  return environments_.emplace(key, Environment{Facts(program), program.facts, std::move(arrays)}).first->second;
}

std::size_t Pieces::statements() const {
  std::size_t count = 0;
  for (const auto& [key, environment] : environments_) count += statements_in(environment.outside);
  return count;
}

}  // namespace loopgrad::poly

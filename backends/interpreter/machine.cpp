#include "backends/interpreter/machine.h"

#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace loopgrad::backend::interpreter {
namespace {

/// Arrays whose elements have values when the program starts.
bool initialised_at_start(const ir::Array& array, const std::set<const ir::ArrayDecl*>& written) {
  switch (array->role) {
    case ir::ArrayRole::Input:
    case ir::ArrayRole::InOut: return true;
    case ir::ArrayRole::Tape: return written.count(array.get()) == 0;
    case ir::ArrayRole::Output:
    case ir::ArrayRole::Local: return false;
  }
  return false;
}

std::set<const ir::ArrayDecl*> written_arrays(const ir::Program& program) {
  std::set<const ir::ArrayDecl*> written;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    if (const auto* assign = s.as<ir::Assign>()) written.insert(assign->array.get());
    if (const auto* reduce = s.as<ir::Reduce>()) written.insert(reduce->array.get());
    if (const auto* pop = s.as<ir::Pop>()) written.insert(pop->array.get());
  });
  return written;
}

}  // namespace

void fail(const Site& site, ErrorCode code, const std::string& message, const std::string& hint,
          const LoopSlot* blamed) {
  std::vector<std::string> iterators;
  SourceLocation location = site.location;
  for (const LoopSlot* loop = site.loop; loop; loop = loop->outer) {
    iterators.push_back(fmt::format("{} = {}", loop->name, loop->value));
    if (!location.known()) location = loop->location;
  }
  if (!location.known()) location = site.program->location;
  std::reverse(iterators.begin(), iterators.end());
  const std::string at = iterators.empty() ? "" : fmt::format(" at {}", fmt::join(iterators, ", "));
  if (!blamed) blamed = site.loop;
  throw RuntimeError({code, message + at, site.program->name, blamed ? blamed->name : "",
                      site.array ? site.array->name : "", hint, location});
}

std::string ArraySlot::element(std::int64_t offset) const {
  std::vector<std::int64_t> indices(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    indices[d] = offset % shape[d];
    offset /= shape[d];
  }
  return fmt::format("{}[{}]", decl->name, fmt::join(indices, ", "));
}

Machine::Machine(const ir::Program& program_in, const Binding& binding, const InterpreterOptions& options_in,
                 ValueStack* stack_in)
    : program(program_in), options(options_in), sizes(binding.sizes), stack(stack_in ? *stack_in : own_stack_) {
  if (binding.arrays.size() != program.arrays.size()) throw InternalError("the binding is of another program");
  for (std::size_t i = 0; i < program.arrays.size(); ++i) add_argument(program.arrays[i], binding.arrays[i]);
  if (options.checked) add_shadows(binding);
}

ArraySlot& Machine::array(const ir::Array& array) {
  const auto found = slot_of_.find(array.get());
  if (found == slot_of_.end()) throw InternalError("array '" + array->name + "' is not declared where it is used");
  return *found->second;
}

ArraySlot& Machine::add_local(const ir::Array& array) {
  ArraySlot& slot = slots_.emplace_back();
  slot.decl = array.get();
  slot.shape.resize(array->shape.size());
  note_distinct(slot);
  if (options.checked) slot.shadow = std::make_shared<Shadow>();
  if (!slot_of_.emplace(array.get(), &slot).second) throw InternalError("array '" + array->name + "' declared twice");
  return slot;
}

LoopSlot& Machine::add_loop(const ir::Symbol& iterator, SourceLocation location, const LoopSlot* outer) {
  return loops_.emplace_back(LoopSlot{outer, iterator.name, location, 0});
}

const Site& Machine::add_site(const LoopSlot* loop, SourceLocation location, const ir::Array& array) {
  return sites_.emplace_back(Site{&program, loop, array.get(), location});
}

void Machine::add_argument(const ir::Array& array, const View& view) {
  if (view.type != run_type(array->type) || view.shape.size() != array->callers_shape().size()) {
    throw InternalError("array '" + array->name + "' is bound with another type or rank");
  }
  ArraySlot& slot = slots_.emplace_back();
  slot.decl = array.get();
  slot.data = static_cast<std::byte*>(view.data);
  slot.shape = view.shape;
  if (!array->given.empty()) {
    slot.shape.clear();
    for (const ir::Expr& extent : array->shape) slot.shape.push_back(evaluate(extent, sizes));
  }
  note_distinct(slot);
  slot_of_.emplace(array.get(), &slot);
}

void Machine::note_distinct(ArraySlot& slot) const {
  if (!options.checked) return;
  for (const ir::Fact& fact : program.facts)
    if (fact.kind == ir::FactKind::Distinct && fact.array.get() == slot.decl)
      slot.element_of = std::make_unique<std::unordered_map<std::int64_t, std::int64_t>>();
}

/// One shadow for all arguments that share memory, so that an access by one name is seen by the others.
void Machine::add_shadows(const Binding& binding) {
  struct Extent {
    std::size_t index;
    std::byte *begin, *end;
    std::int64_t element_bytes;
  };
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < binding.arrays.size(); ++i) {
    const View& view = binding.arrays[i];
    const auto bytes = static_cast<std::int64_t>(bytes_of(view.type));
    auto* begin = static_cast<std::byte*>(view.data);
    extents.push_back({i, begin, begin + element_count(view.shape, view.type, "") * bytes, bytes});
  }
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::tie(a.element_bytes, a.begin, a.index) < std::tie(b.element_bytes, b.begin, b.index);
  });
  const auto written = written_arrays(program);
  for (std::size_t first = 0; first < extents.size();) {
    // Arrays of another element size that share this memory are all only read, so they need no common shadow.
    std::size_t last = first + 1;
    std::byte* end = extents[first].end;
    while (last < extents.size() && extents[last].begin < end &&
           extents[last].element_bytes == extents[first].element_bytes) {
      end = std::max(end, extents[last++].end);
    }
    const auto shadow = std::make_shared<Shadow>();
    shadow->reset((end - extents[first].begin) / extents[first].element_bytes, 0);
    for (std::size_t k = first; k < last; ++k) {
      const Extent& extent = extents[k];
      ArraySlot& slot = slots_[extent.index];
      slot.shadow = shadow;
      slot.shadow_offset = (extent.begin - extents[first].begin) / extent.element_bytes;
      const auto elements = (extent.end - extent.begin) / extent.element_bytes;
      if (initialised_at_start(program.arrays[extent.index], written)) {
        shadow->set_initialised(slot.shadow_offset, slot.shadow_offset + elements);
      }
    }
    first = last;
  }
}

}  // namespace loopgrad::backend::interpreter

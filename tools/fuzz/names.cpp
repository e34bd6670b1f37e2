#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"
#include "tools/fuzz/generator.h"
#include "tools/support/random.h"

namespace loopgrad::fuzz {
namespace {

std::vector<std::string> names_of_others(const ir::Program& program) {
  std::vector<std::string> names = {"i",     "j",       "match", "block", "lane", "value0",
                                    "stale", "indices", "trips", "s_all", "z0",   "c0"};
  for (const ir::Symbol& size : program.sizes) names.push_back(size.name);
  for (const ir::Array& array : program.arrays) {
    for (const char* before : {"", "d_", "t_"}) names.push_back(before + array->name);
    for (const char* behind : {"_tape", "_all", "_part"}) names.push_back(array->name + behind);
  }
  return names;
}

}  // namespace

Program with_common_names(const Program& program, std::uint64_t seed) {
  tools::Random random(seed * 47 + 13);
  if (random.below(5) > 0) return program;
  std::vector<std::string> names = names_of_others(program.ir());
  std::map<ir::Array, ir::Array> renamed;
  ir::walk_stmts(program.ir().body, [&](const ir::Stmt& s) {
    const auto* local = s.as<ir::Allocate>();
    if (!local || random.below(2) == 0) return;
    const ir::Array& old = local->array;
    if (random.below(3) == 0) names.push_back(old->name + (random.below(2) == 0 ? "" : "_tape"));
    const std::string& name = names[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(names.size())))];
    renamed[old] = ir::make_array_like(old, name, old->type, old->role);
  });
  const ir::Program& written = program.ir();
  return Program(
      std::make_shared<const ir::Program>(ir::with_body(written, ir::replace_arrays(written.body, renamed))));
}

}  // namespace loopgrad::fuzz

#include "backends/openmp/emitter.h"

#include "backends/openmp/name_extents.h"
#include "backends/openmp/prelude.h"
#include "backends/openmp/region.h"
#include "backends/openmp/stmt_text.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <cctype>

namespace loopgrad::backend {
namespace {

using namespace ir;

constexpr const char* shared_types = R"(
#ifndef LOOPGRAD_KERNEL_TYPES
#define LOOPGRAD_KERNEL_TYPES
/* What the functions return. */
enum loopgrad_status { loopgrad_ok = 0, loopgrad_out_of_memory = 1, loopgrad_bad_stack = 2 };
/* The run-time stack of a naive tape. Start with zeros; `data` comes from realloc and is the caller's to free. */
struct loopgrad_stack {
  unsigned char* data;
  int64_t size, capacity, peak; /* bytes */
};
/* Memory that is kept from call to call. Start with zeros; `data` is the caller's to free. */
struct loopgrad_block {
  void* data;
  int64_t bytes;
};
#endif
)";

constexpr const char* blas_type = R"(
#ifndef LOOPGRAD_KERNEL_BLAS
#define LOOPGRAD_KERNEL_BLAS
/* A BLAS with the Fortran interface and integers of 32 bits. Calls come from several threads at once, so it must itself
   run on one: openblas_set_num_threads(1). */
struct loopgrad_blas {
  void (*sgemm)(void);
  void (*dgemm)(void);
  double least_work; /* products of fewer multiplications are left to loops */
};
#endif
)";

/// Everything about one function that its declaration and definition share.
struct FunctionText {
  EmittedFunction function;
  std::string declaration;  // the argument struct and the prototype, in C
  std::string definition;   // in C++
  std::set<Helper> helpers;
};

bool is_const(const Array& array) { return array->role == ArrayRole::Input; }

const char* describe(ArrayRole role) {
  switch (role) {
    case ArrayRole::Input: return "in";
    case ArrayRole::Output: return "out";
    case ArrayRole::InOut: return "in-out";
    case ArrayRole::Tape: return "tape";
    case ArrayRole::Local: break;
  }
  return "local";
}

std::string shape_text(const Array& array, EmitState& state) {
  std::string out;
  for (const Expr& extent : array->shape) out += (out.empty() ? "" : ", ") + text_of(extent, state);
  return "[" + out + "]";
}

std::string declaration_text(const Program& program, const EmittedFunction& function, EmitState& state) {
  std::string out = fmt::format("\nstruct {}args {{\n", function.name);
  for (const Symbol& size : program.sizes) out += fmt::format("  int64_t {};\n", state.names.of(size));
  for (const Array& array : program.arrays) {
    const bool bits = array->type == ScalarType::F16 || array->type == ScalarType::BF16;
    out += fmt::format("  {}{}* {}; /* {}: {}{} */\n", is_const(array) ? "const " : "", storage_cpp_type(array->type),
                       state.names.of(array), describe(array->role),
                       bits ? std::string(name_of(array->type)) + " " : "", shape_text(array, state));
  }
  out += fmt::format("  struct loopgrad_stack* stack; /* {} */\n", function.uses_stack ? "required" : "unused");
  out += fmt::format("  struct loopgrad_block* workspace; /* {} kept, or null: memory is freed on return */\n",
                     function.workspace_blocks);
  out += "  int64_t num_threads; /* 0: the OpenMP default */\n";
  if (function.uses_blas) out += "  const struct loopgrad_blas* blas; /* or null: loops */\n";
  out += "};\n";
  out += fmt::format("int {0}(const struct {0}args* args);\n", function.name);
  return out;
}

/// True when `name` stands in the text as a word of its own.
bool mentions(const std::string& text, const std::string& name) {
  auto is_part = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
    if (!is_part(at + name.size()) && (at == 0 || !is_part(at - 1))) return true;
  return false;
}

struct Parameter {
  std::string declaration, argument;
};

/// Parameters of the function that does the work, as far as its body uses them; restrict counts on parameters only.
std::vector<Parameter> parameters_of(const Program& program, const FunctionUses& uses, const std::string& body,
                                     EmitState& state) {
  const std::set<Array> aliased = aliased_arrays(program);
  std::set<Array> written;
  walk_stmts(program.body, [&](const Stmt& s) {
    if (const auto* n = s.as<Assign>()) written.insert(n->array);
    if (const auto* n = s.as<Reduce>()) written.insert(n->array);
    if (const auto* n = s.as<Pop>()) written.insert(n->array);
  });
  std::vector<Parameter> list;
  auto add = [&](const std::string& type, const std::string& name) {
    if (mentions(body, name)) list.push_back({type + name, "args->" + name});
  };
  for (const Symbol& size : program.sizes) add("int64_t ", state.names.of(size));
  for (const Array& array : program.arrays)
    add(fmt::format("{}{}* {}", written.count(array) ? "" : "const ", storage_cpp_type(array->type),
                    aliased.count(array) ? "" : "__restrict "),
        state.names.of(array));
  if (uses.stack) list.push_back({"loopgrad_stack* home", "args->stack"});
  if (uses.heap) list.push_back({"loopgrad_block* workspace", "args->workspace"});
  if (uses.contractions) list.push_back({"const loopgrad_blas* blas", "args->blas"});
  if (uses.threads || uses.contractions) list.push_back({"int threads", "threads"});
  return list;
}

FunctionText function_text(const Program& source, const std::string& name) {
  const auto [program, extents] = name_extents(source);
  const FunctionUses uses = uses_of(program);
  EmitState state(program);
  state.vector_math = true;
  // Sizes and arrays come first, so that they keep their names.
  for (const Symbol& size : program.sizes) state.names.of(size);
  for (const Array& array : program.arrays) state.names.of(array);

  std::string constants;
  for (const auto& [symbol, value] : extents) {
    constants += fmt::format("  const int64_t {} = {};\n", state.names.of(symbol), text_of(value, state));
    if (is_non_negative(value, state)) state.non_negative.insert(symbol);
  }
  BodyText body = body_text(program, uses, state);
  body.text = constants + body.text;
  std::vector<std::string> declarations, arguments;
  for (Parameter& parameter : parameters_of(program, uses, body.text, state)) {
    declarations.push_back(std::move(parameter.declaration));
    arguments.push_back(std::move(parameter.argument));
  }
  FunctionText out;
  out.function = {name, body.workspace_blocks, uses.stack, uses.contractions, uses.threads || uses.contractions};
  out.declaration = declaration_text(program, out.function, state);
  out.definition = fmt::format("\nstatic int {}run({}) {{\n{}  return loopgrad_ok;\n}}\n", name,
                               joined(declarations, 20, 4), body.text);
  out.definition += fmt::format("\nextern \"C\" int {0}({1}const {0}args* args) {{\n", name,
                                arguments.empty() ? "[[maybe_unused]] " : "");
  if (uses.threads || uses.contractions)
    out.definition +=
        "  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();\n";
  out.definition += fmt::format("  return {}run({});\n}}\n", name, joined(arguments, 20, 4));
  out.helpers = std::move(state.helpers);
  if (uses.stack) out.helpers.insert(Helper::Stack);
  return out;
}

}  // namespace

EmittedUnit emit_openmp(const std::vector<Program>& programs, const std::string& header_name) {
  EmittedUnit unit;
  NameTable names(generated_name);
  std::set<Helper> helpers;
  std::string titles, declarations, definitions;
  for (const Program& program : programs) {
    const FunctionText text = function_text(program, names.fresh(program.name));
    titles += (titles.empty() ? "" : ", ") + text.function.name;
    unit.functions.push_back(text.function);
    declarations += text.declaration;
    definitions += text.definition;
    helpers.insert(text.helpers.begin(), text.helpers.end());
  }
  declarations = fmt::format(
      "#include <stdbool.h>\n#include <stdint.h>\n{}\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n{}"
      "\n#ifdef __cplusplus\n}}\n#endif\n",
      helpers.count(Helper::Multiply) ? std::string(shared_types) + blas_type : shared_types, declarations);
  const std::string title = fmt::format("Generated by loopgrad: {}. Arrays are row-major and contiguous.", titles);
  unit.header = fmt::format("/* {} */\n#pragma once\n{}", title, declarations);
  unit.source =
      fmt::format("// {}\n// Build with: g++ -std=c++20 -fopenmp {} {}\n", title, required_flags, speed_flags);
  unit.source += header_name.empty() ? declarations : fmt::format("#include \"{}\"\n", header_name);
  unit.source +=
      "\n#include <omp.h>\n\n#include <cmath>\n#include <cstdlib>\n#include <cstring>\n#include <initializer_list>\n";
  if (!helpers.empty()) unit.source += "\nnamespace {\n" + openmp_helpers(helpers) + "\n}  // namespace\n";
  unit.source += definitions;
  return unit;
}

}  // namespace loopgrad::backend

#include "backends/openmp/emitter.h"

#include "backends/openmp/name_extents.h"
#include "backends/openmp/prelude.h"
#include "backends/openmp/region.h"
#include "backends/openmp/stmt_text.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <cctype>

namespace loopgrad::backend {
namespace {

using namespace ir;

constexpr const char* shared_types_begin = R"(
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
)";

std::string shared_types() { return std::string(shared_types_begin) + block_type_text + "#endif\n"; }

std::string guarded_blas_type() {
  return std::string("\n#ifndef LOOPGRAD_KERNEL_BLAS\n#define LOOPGRAD_KERNEL_BLAS\n") + blas_type_text + "#endif\n";
}

/// Everything about one function that its declaration and definition share.
struct FunctionText {
  EmittedFunction function;
  std::string declaration;  // the argument struct and the prototype, in C
  WorkFunction work;
  std::string entry;  // in C++
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
    out += fmt::format("  {}{}* {}; /* {}: {}{} */\n", is_const(array) ? "const " : "", storage_cpp_type(array),
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

/// Parameters of the function that does the work, as far as its body uses them; restrict counts on parameters only.
std::vector<EmittedParameter> parameters_of(const Program& program, const FunctionUses& uses, const std::string& body,
                                            EmitState& state) {
  const std::set<Array> aliased = aliased_arrays(program);
  std::set<Array> written;
  walk_stmts(program.body, [&](const Stmt& s) {
    if (const auto* n = s.as<Assign>()) written.insert(n->array);
    if (const auto* n = s.as<Reduce>()) written.insert(n->array);
    if (const auto* n = s.as<Pop>()) written.insert(n->array);
  });
  using Of = EmittedParameter::Kind;
  std::vector<EmittedParameter> list;
  const auto add = [&](Of kind, const std::string& name, std::string declaration, const std::string& member) {
    list.push_back(EmittedParameter{kind, name, std::move(declaration), member});
  };
  for (const Symbol& size : program.sizes)
    if (const std::string& name = state.names.of(size); mentions(body, name))
      add(Of::Size, size.name, "int64_t " + name, name);
  for (const Array& array : program.arrays) {
    const std::string& name = state.names.of(array);
    if (!mentions(body, name)) continue;
    add(Of::Array, array->name,
        fmt::format("{}{}* {}{}", written.count(array) ? "" : "const ", storage_cpp_type(array),
                    aliased.count(array) ? "" : "__restrict ", name),
        name);
  }
  if (uses.stack) add(Of::Stack, "", "loopgrad_stack* home", "stack");
  if (uses.heap) add(Of::Workspace, "", "loopgrad_block* workspace", "workspace");
  if (uses.contractions) add(Of::Blas, "", "const loopgrad_blas* blas", "blas");
  if (uses.threads || uses.contractions) add(Of::Threads, "", "int threads", "");
  return list;
}

/// The extents of local arrays in sizes of the program, as far as sizes decide.
std::vector<WorkspaceBlock> sized_blocks(std::vector<WorkspaceBlock> blocks, const Program& program,
                                         const std::vector<NamedExtent>& names) {
  const std::set<Symbol> sizes(program.sizes.begin(), program.sizes.end());
  for (WorkspaceBlock& block : blocks) {
    std::vector<Expr> shape = block.array->shape;
    bool of_sizes = true;
    for (Expr& extent : shape) {
      for (auto name = names.rbegin(); name != names.rend(); ++name)
        extent = substitute(extent, {{name->symbol, name->value}});
      walk(extent, [&](const Expr& part) {
        const auto* v = part.as<Var>();
        of_sizes &= part.kind() != Kind::Load && (!v || sizes.count(v->symbol) > 0);
      });
    }
    block.array = of_sizes
                      ? make_array(block.array->name, block.array->type, shape, ArrayRole::Local, block.array->location)
                      : nullptr;
  }
  return blocks;
}

FunctionText function_text(const Program& source, const std::string& name, bool timed = false) {
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
  BodyText body = body_text(program, uses, state, timed ? name + "seconds" : "");
  body.text = constants + body.text;
  FunctionText out;
  WorkFunction& work = out.work;
  work.name = name + "run";
  work.parameters = parameters_of(program, uses, body.text, state);
  work.uses_stack = uses.stack;
  std::vector<std::string> declarations, arguments;
  for (const EmittedParameter& parameter : work.parameters) {
    declarations.push_back(parameter.declaration);
    arguments.push_back(parameter.kind == EmittedParameter::Kind::Threads ? "threads" : "args->" + parameter.member);
  }
  out.function = {name,
                  static_cast<int>(body.workspace_blocks.size()),
                  uses.stack,
                  uses.contractions,
                  uses.threads || uses.contractions,
                  body.timed_parts};
  out.declaration = declaration_text(program, out.function, state);
  work.definition = fmt::format("\nstatic int {}({}) {{\n{}  return loopgrad_ok;\n}}\n", work.name,
                                joined(declarations, 20, 4), body.text);
  work.blocks = sized_blocks(std::move(body.workspace_blocks), program, extents);
  if (body.timed_parts > 0)
    work.definition =
        fmt::format("\nextern \"C\" {{\ndouble {}seconds[{}];\n}}\n", name, body.timed_parts) + work.definition;
  out.entry = fmt::format("\nextern \"C\" int {0}({1}const {0}args* args) {{\n", name,
                          arguments.empty() ? "[[maybe_unused]] " : "");
  if (uses.threads || uses.contractions)
    out.entry +=
        "  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();\n";
  out.entry += fmt::format("  return {}({});\n}}\n", work.name, joined(arguments, 20, 4));
  work.helpers = std::move(state.helpers);
  if (uses.stack) work.helpers.insert(Helper::Stack);
  return out;
}

}  // namespace

const char* const block_type_text = R"(struct loopgrad_block {
  void* data;
  int64_t bytes;
};
)";

const char* const blas_type_text =
    R"(/* A BLAS with the Fortran interface and integers of 32 bits. Calls come from several threads at once, so it must itself
   run on one: openblas_set_num_threads(1). */
struct loopgrad_blas {
  void (*sgemm)(void);
  void (*dgemm)(void);
  double least_work; /* products of fewer multiplications are left to loops */
};
)";

EmittedUnit emit_openmp(const std::vector<Program>& programs, const std::string& header_name, bool timed) {
  EmittedUnit unit;
  NameTable names(generated_name);
  std::set<Helper> helpers;
  std::string titles, declarations, definitions;
  for (const Program& program : programs) {
    const FunctionText text = function_text(program, names.fresh(program.name), timed);
    titles += (titles.empty() ? "" : ", ") + text.function.name;
    unit.functions.push_back(text.function);
    declarations += text.declaration;
    definitions += text.work.definition + text.entry;
    helpers.insert(text.work.helpers.begin(), text.work.helpers.end());
  }
  declarations = fmt::format(
      "#include <stdbool.h>\n#include <stdint.h>\n{}\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n{}"
      "\n#ifdef __cplusplus\n}}\n#endif\n",
      helpers.count(Helper::Multiply) ? shared_types() + guarded_blas_type() : shared_types(), declarations);
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

std::vector<WorkFunction> emit_work_functions(const std::vector<Program>& programs) {
  NameTable names(generated_name);
  std::vector<WorkFunction> all;
  for (const Program& program : programs) all.push_back(function_text(program, names.fresh(program.name)).work);
  return all;
}

}  // namespace loopgrad::backend

#include "backends/cuda/assembler.h"

#include <array>
#include <map>
#include <set>
#include <sstream>

namespace loopgrad::backend {
namespace {

/// `max.s32 %r3, %r1, %r2;`
struct Extremum {
  char kind = 0;  // of 'min' the second letter, of 'max' too
  std::array<std::string, 2> operands;
};

/// The instructions of one function, by the registers that they write. A register may be written more than once.
struct Function {
  std::set<std::string> negated;
  std::multimap<std::string, std::string> copies;  // to -> from
  std::multimap<std::string, Extremum> extrema;

  void note(const std::string& line) {
    if (line.find(".s32") == std::string::npos && line.find(".u32") == std::string::npos &&
        line.find("mov.b32") == std::string::npos)
      return;
    std::istringstream words(line);
    std::string operation, to, a, b;
    words >> operation >> to >> a >> b;
    for (std::string* word : {&to, &a, &b})
      while (!word->empty() && (word->back() == ',' || word->back() == ';')) word->pop_back();
    if (operation == "neg.s32") negated.insert(to);
    else if (operation == "mov.u32" || operation == "mov.b32" || operation == "mov.s32") copies.emplace(to, a);
    else if (operation.size() == 7 && (operation.ends_with(".s32") || operation.ends_with(".u32")) &&
             (operation.starts_with("min") || operation.starts_with("max")))
      extrema.emplace(to, Extremum{operation[1], {a, b}});
  }

  bool may_lose_minus() const {
    const std::set<std::string> minus = with_copies(negated);
    for (const char kind : {'i', 'a'}) {
      std::set<std::string> inner;
      for (const auto& [to, extremum] : extrema)
        if (extremum.kind == kind && (minus.contains(extremum.operands[0]) || minus.contains(extremum.operands[1])))
          inner.insert(to);
      inner = with_copies(std::move(inner));
      for (const auto& [to, extremum] : extrema)
        if (extremum.kind == kind && (inner.contains(extremum.operands[0]) || inner.contains(extremum.operands[1])))
          return true;
    }
    return false;
  }

 private:
  std::set<std::string> with_copies(std::set<std::string> registers) const {
    for (std::size_t before = 0; before != registers.size();) {
      before = registers.size();
      for (const auto& [to, from] : copies)
        if (registers.contains(from)) registers.insert(to);
    }
    return registers;
  }
};

}  // namespace

const char* const separate_extrema = R"(// The assembler would lose the minus of a maximum of three.
__device__ inline int min_of(int a, int b) {
  int result;
  asm("vmin.s32.s32.s32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
__device__ inline int max_of(int a, int b) {
  int result;
  asm("vmax.s32.s32.s32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
)";

bool may_lose_minus(const std::string& assembly) {
  Function function;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(".entry") != std::string::npos || line.find(".func") != std::string::npos) {
      if (function.may_lose_minus()) return true;
      function = {};
    }
    function.note(line);
  }
  return function.may_lose_minus();
}

}  // namespace loopgrad::backend

#include <loopgrad/error.h>

#include <fmt/format.h>

namespace loopgrad {
namespace {

std::string compose(const ErrorInfo& info) {
  std::string text;
  if (info.location.known()) text += info.location.str() + ": ";
  if (!info.program.empty()) text += fmt::format("program '{}': ", info.program);
  if (!info.loop.empty()) text += fmt::format("loop '{}': ", info.loop);
  if (!info.array.empty()) text += fmt::format("array '{}': ", info.array);
  text += info.message;
  if (!info.hint.empty()) text += fmt::format(". Hint: {}", info.hint);
  return text;
}

}  // namespace

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::BadProgram: return "bad_program";
    case ErrorCode::BadArgument: return "bad_argument";
    case ErrorCode::BadShape: return "bad_shape";
    case ErrorCode::BadType: return "bad_type";
    case ErrorCode::BadLayout: return "bad_layout";
    case ErrorCode::BadSize: return "bad_size";
    case ErrorCode::BadIndex: return "bad_index";
    case ErrorCode::BadFact: return "bad_fact";
    case ErrorCode::Aliasing: return "aliasing";
    case ErrorCode::UninitialisedRead: return "uninitialised_read";
    case ErrorCode::Race: return "race";
    case ErrorCode::NotANumber: return "not_a_number";
    case ErrorCode::NotDifferentiable: return "not_differentiable";
    case ErrorCode::IllegalTransform: return "illegal_transform";
    case ErrorCode::BudgetExceeded: return "budget_exceeded";
    case ErrorCode::NoCompiler: return "no_compiler";
    case ErrorCode::CompileFailed: return "compile_failed";
    case ErrorCode::BadCache: return "bad_cache";
    case ErrorCode::OutOfMemory: return "out_of_memory";
    case ErrorCode::NoDevice: return "no_device";
    case ErrorCode::DeviceFailed: return "device_failed";
    case ErrorCode::BadInput: return "bad_input";
  }
  return "?";
}

Error::Error(ErrorInfo info) : std::runtime_error(compose(info)), info_(std::move(info)) {}

}  // namespace loopgrad

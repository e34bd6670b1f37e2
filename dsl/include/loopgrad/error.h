/// @file
/// One family of errors. Each names what it can of program, loop, array and source line, and says what to do about it.
#pragma once

#include <loopgrad/types.h>

#include <stdexcept>
#include <string>

namespace loopgrad {
/// @addtogroup reports
/// @{

/// What went wrong, for programs that react to errors. Messages are for people, codes for code.
enum class ErrorCode {
  BadProgram,         ///< the DSL was used wrongly while building a program
  BadArgument,        ///< missing, extra or unknown argument of a call
  BadShape,           ///< rank or extent differs from the declaration
  BadType,            ///< element type differs from the declaration
  BadLayout,          ///< strides where a contiguous array is due
  BadSize,            ///< a size is negative, inconsistent, unknown or overflows
  BadIndex,           ///< an index is out of range, or a loop makes more trips than promised
  BadFact,            ///< a stated fact about an array does not hold
  Aliasing,           ///< two arguments share memory without `may_alias`
  UninitialisedRead,  ///< a value is read before it is written (checked execution)
  Race,               ///< two iterations of a parallel loop touch one element (checked execution)
  NotANumber,         ///< a NaN was produced (checked execution)
  NotDifferentiable,  ///< no gradient exists or none can be guaranteed to be right
  IllegalTransform,   ///< a transformation would break a dependence
  BudgetExceeded,     ///< the polyhedral work limit was reached
  NoCompiler,         ///< the JIT compiler cannot be started
  CompileFailed,      ///< the JIT compiler refused the generated code
  BadCache,           ///< the cache folder cannot be used
  OutOfMemory,        ///< for arrays, a tape or what a run needs besides; or a tape beyond `max_tape_bytes`
  NoDevice,           ///< there is no GPU, driver or toolkit, or the GPU is too old
  DeviceFailed,       ///< a call to the GPU's runtime or a kernel failed
  BadInput,           ///< command line or data file
};

/// The name of a code as it appears in JSON, e.g. "bad_shape".
const char* name_of(ErrorCode code);

/// Everything an error knows. Empty fields are left out of the message.
struct ErrorInfo {
  ErrorCode code = ErrorCode::BadProgram;  ///< what kind of error, for code
  std::string message = {};                ///< what happened, in one sentence without a full stop
  std::string program = {};                ///< its name
  std::string loop = {};                   ///< its iterator
  std::string array = {};                  ///< its name
  std::string hint = {};                   ///< what to do about it
  SourceLocation location = {};            ///< the user's line
};

/// Base of all errors that a user can cause or meet.
/// `what()` reads: ``app.cpp:31: program 'conv1d': <message>. Hint: <hint>``.
class Error : public std::runtime_error {
 public:
  /// Makes `what()` of these parts.
  explicit Error(ErrorInfo info);
  /// One field of ErrorInfo; empty, or a location that is not `known()`, where it does not apply.
  /// @{
  ErrorCode code() const { return info_.code; }
  const std::string& program() const { return info_.program; }
  const std::string& loop() const { return info_.loop; }
  const std::string& array() const { return info_.array; }
  const std::string& hint() const { return info_.hint; }
  const SourceLocation& location() const { return info_.location; }
  /// @}
  /// All of them.
  const ErrorInfo& info() const { return info_; }

 private:
  ErrorInfo info_;
};

/// The API or the command line was used wrongly; nothing was executed.
struct UsageError : Error {
  using Error::Error;
};
/// A transformation was asked for that would change the program's meaning.
struct TransformError : Error {
  using Error::Error;
};
/// The program cannot be differentiated correctly.
struct DifferentiationError : Error {
  using Error::Error;
};
/// The system compiler could not be run or refused the generated code (the message holds log and kept source).
struct CompileError : Error {
  using Error::Error;
};
/// Found while executing: checked-mode findings, memory exhaustion.
struct RuntimeError : Error {
  using Error::Error;
};

/// A bug of loopgrad itself: outside the family on purpose, so that `catch (Error&)` never hides one.
class InternalError : public std::logic_error {
 public:
  /// `what` says what should not have happened; the request to report it is added.
  explicit InternalError(const std::string& what)
      : std::logic_error("internal error: " + what + " (please report this with the program that caused it)") {}
};

/// @}
}  // namespace loopgrad

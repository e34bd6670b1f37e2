// The public Schedule: a list of steps, as methods and as text.
#include <loopgrad/schedule.h>

#include "transforms/pipeline.h"
#include "transforms/schedule/apply_schedule.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <charconv>

namespace loopgrad {

namespace {

[[noreturn]] void bad_text(const std::string& text, const std::string& why) {
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = fmt::format("'{}' is no step of a schedule: {}", text, why),
                    .hint = "write tile(i, j, 32, 32); a loop is NAME, NAME@LINE or NAME#NUMBER"});
}

std::string trimmed(const std::string& text) {
  auto first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> result;
  std::size_t start = 0;
  for (std::size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, start)) {
    result.push_back(trimmed(text.substr(start, end - start)));
    start = end + 1;
  }
  result.push_back(trimmed(text.substr(start)));
  return result;
}

template <class Int>
Int number_in(const std::string& digits, const std::string& step) {
  Int value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) bad_text(step, "'" + digits + "' is no number");
  return value;
}

LoopName name_in(std::string text, const std::string& step) {
  int line = 0, number = 0;
  if (auto at = text.find('#'); at != std::string::npos) {
    number = number_in<int>(text.substr(at + 1), step);
    text = text.substr(0, at);
  }
  if (auto at = text.find('@'); at != std::string::npos) {
    line = number_in<int>(text.substr(at + 1), step);
    text = text.substr(0, at);
  }
  if (text.empty()) bad_text(step, "a name is missing");
  LoopName name(text);
  if (line) name = name.at_line(line);
  return number ? name.number(number) : name;
}

Schedule::Step step_in(const std::string& text) {
  auto open = text.find('(');
  if (open == std::string::npos || text.back() != ')') bad_text(text, "it has no arguments in parentheses");
  Schedule::Step step{trimmed(text.substr(0, open)), {}, {}};
  for (const std::string& argument : split_at(text.substr(open + 1, text.size() - open - 2), ',')) {
    if (argument.empty()) bad_text(text, "an argument is missing");
    bool number = argument.find_first_not_of("-0123456789") == std::string::npos;
    if (number) step.numbers.push_back(number_in<std::int64_t>(argument, text));
    else if (!step.numbers.empty()) bad_text(text, "a name follows a number");
    else step.names.push_back(name_in(argument, text));
  }
  return step;
}

}  // namespace

LoopName LoopName::at_line(int line) const {
  LoopName result = *this;
  result.line_ = line;
  return result;
}

LoopName LoopName::number(int number) const {
  LoopName result = *this;
  result.number_ = number;
  return result;
}

std::string LoopName::str() const {
  std::string text = name_;
  if (line_) text += fmt::format("@{}", line_);
  if (number_) text += fmt::format("#{}", number_);
  return text;
}

std::string Schedule::Step::str() const {
  std::string arguments;
  for (const LoopName& name : names) arguments += (arguments.empty() ? "" : ", ") + name.str();
  for (std::int64_t value : numbers) arguments += (arguments.empty() ? "" : ", ") + std::to_string(value);
  return fmt::format("{}({})", op, arguments);
}

Schedule::Schedule(const Program& program, const std::map<std::string, std::int64_t>& expected_sizes)
    : program_(std::make_shared<const ir::Program>(
          transforms::before_schedule(program.ir(), {.expected_sizes = expected_sizes}))) {}

Schedule& Schedule::add(Step step) {
  if (program_) {
    Report ignored;
    program_ = std::make_shared<const ir::Program>(transforms::apply_step(*program_, step, ignored));
  }
  steps_.push_back(std::move(step));
  return *this;
}

Schedule& Schedule::add(const std::string& step) { return add(step_in(trimmed(step))); }

Schedule Schedule::parse(const std::string& text) {
  Schedule result;
  for (const std::string& step : split_at(text, ';')) {
    if (!step.empty()) result.add(step);
  }
  return result;
}

std::string Schedule::str() const {
  std::string text;
  for (const Step& step : steps_) text += (text.empty() ? "" : "; ") + step.str();
  return text;
}

Program Schedule::program() const {
  if (program_) return Program(program_);
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = "a schedule without a program has no result",
                    .hint = "make it with lg::Schedule(program)"});
}

Schedule& Schedule::split(const LoopName& loop, std::int64_t factor) { return add(Step{"split", {loop}, {factor}}); }
Schedule& Schedule::tile(const std::vector<LoopName>& loops, const std::vector<std::int64_t>& sizes) {
  return add(Step{"tile", loops, sizes});
}
Schedule& Schedule::interchange(const LoopName& a, const LoopName& b) { return add(Step{"interchange", {a, b}, {}}); }
Schedule& Schedule::reorder(const std::vector<LoopName>& order) { return add(Step{"reorder", order, {}}); }
Schedule& Schedule::fuse(const LoopName& first, const LoopName& second) {
  return add(Step{"fuse", {first, second}, {}});
}
Schedule& Schedule::fission(const LoopName& loop, int after) { return add(Step{"fission", {loop}, {after}}); }
Schedule& Schedule::unroll(const LoopName& loop, std::int64_t factor) { return add(Step{"unroll", {loop}, {factor}}); }
Schedule& Schedule::unroll_and_jam(const LoopName& loop, std::int64_t factor) {
  return add(Step{"unroll_and_jam", {loop}, {factor}});
}
Schedule& Schedule::parallelize(const LoopName& loop) { return add(Step{"parallelize", {loop}, {}}); }
Schedule& Schedule::vectorize(const LoopName& loop, std::int64_t lanes) {
  return add(Step{"vectorize", {loop}, {lanes}});
}
Schedule& Schedule::reverse(const LoopName& loop) { return add(Step{"reverse", {loop}, {}}); }
Schedule& Schedule::expand(const std::string& local, const LoopName& loop) {
  return add(Step{"expand", {LoopName(local), loop}, {}});
}
Schedule& Schedule::contract(const std::string& local) { return add(Step{"contract", {LoopName(local)}, {}}); }

}  // namespace loopgrad

// What would change the most, from what is known without running the program.
#include "tools/cli/explanation.h"
#include "tools/cli/table.h"
#include "transforms/map/cpu/share_loops.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::cli {
namespace {

constexpr double kMuch = 0.2;         // of a program's time
constexpr double kLarge = 16 << 20;   // bytes of a tape that are worth a word
constexpr double kDearer = 1.25;      // than atomics: worth a word,
constexpr double kStarts = 4;         // where it is more than what so many parallel regions or kernels take to start
constexpr std::size_t kMost = 5;      // pieces of advice
constexpr double kStartsShare = 0.5;  // of the time, for starting threads or kernels

class Advisor {
 public:
  explicit Advisor(const Explanation& e) : e_(e) {}

  std::vector<std::string> all() {
    for (const ExplainedProgram& program : e_.programs) {
      time_in_order(program);
      few_at_once(program);
      starts(program);
      unknown_targets(program);
      atomics(program);
    }
    tape();
    versioned();
    assumed();
    if (list_.size() > kMost) list_.resize(kMost);
    return std::move(list_);
  }

 private:
  void say(std::string text) {
    if (std::find(list_.begin(), list_.end(), text) == list_.end()) list_.push_back(std::move(text));
  }

  static std::string percent(double part, double all) { return fmt::format("{:.0f} %", 100 * part / all); }

  void time_in_order(const ExplainedProgram& program) {
    if (e_.variant == Variant::NaiveTape) return;
    for (const PartWork& part : program.parts.parts) {
      if (part.is_shared || part.is_product || part.microseconds < kMuch * program.microseconds()) continue;
      say(fmt::format(
          "Loop '{}' ({}) runs in order and takes {} of the {} program. Where its iterations do not need each "
          "other, give each elements of its own to write, by several indices rather than a flattened one, or state "
          "what is known of indices from data (injective, sorted, in_range).",
          part.loops, part.where.str(), percent(part.microseconds, program.microseconds()), program.name));
    }
  }

  void few_at_once(const ExplainedProgram& program) {
    const double enough = e_.machine.is_gpu() ? e_.machine.threads / 8 : e_.machine.threads;
    for (const PartWork& part : program.parts.parts) {
      if (!part.is_shared || part.parallel >= enough || part.microseconds < kMuch * program.microseconds()) continue;
      say(fmt::format(
          "No more than {:.0f} of loop '{}' ({}) run at once on {}: it takes larger sizes, or several problems "
          "in one call, to use all of it.",
          part.parallel, part.loops, part.where.str(), name_of_machine(e_)));
    }
  }

  void starts(const ExplainedProgram& program) {
    double started = 0;
    for (const PartWork& part : program.parts.parts) started += starts_something(part) ? part.runs : 0;
    const double cost = started * e_.machine.start_us;
    if (started < 2 || cost < kStartsShare * program.microseconds()) return;
    say(fmt::format(
        "The {} program starts {} {:.0f} times, which takes about as long as what they do: larger sizes, or "
        "fewer and longer loops.",
        program.name, e_.machine.is_gpu() ? "kernels" : "threads", started));
  }

  /// A CPU does small loops without a region of threads.
  bool starts_something(const PartWork& part) const {
    const bool is_large = part.operations >= part.runs * static_cast<double>(transforms::least_parallel_work);
    return part.is_shared && (e_.machine.is_gpu() || is_large);
  }

  void unknown_targets(const ExplainedProgram& program) {
    std::set<std::string> lines;
    std::string first;
    for (const SumDecision& d : program.decisions.sums) {
      if (d.plan == "none" || d.plan == "gather" || d.reason.find("known only at run time") == std::string::npos)
        continue;
      if (first.empty()) first = shortened(d.sum, 48);
      lines.insert(d.where.str());
    }
    if (lines.empty()) return;
    say(fmt::format(
        "The sum '{}' ({}{}) adds to elements that data choose. Where the indices are an input in which no value "
        "occurs twice, or they ascend, say so (injective, sorted, csr): then nothing is sorted, and no partial "
        "results are made. (Of indices that the program computes nothing can be said.)",
        first, *lines.begin(), lines.size() > 1 ? fmt::format(" and {} more lines", lines.size() - 1) : ""));
  }

  /// Bits that are the same in every run have their price where sums are sorted that atomics would add up in a cache.
  void atomics(const ExplainedProgram& program) {
    // Threads of a CPU that wait for each other's elements are in no estimate.
    if (e_.variant != Variant::Restructured || !e_.machine.is_gpu()) return;
    double taken = 0, by_atomics = 0;
    for (const SumDecision& d : program.decisions.sums) {
      double own = 0, atomic = 0;
      for (const SumCandidate& candidate : d.candidates) {
        if (candidate.plan == d.plan) own = candidate.microseconds;
        if (candidate.plan == "atomic") atomic = candidate.microseconds;
      }
      if (own <= kDearer * atomic || atomic == 0) continue;
      taken += own;
      by_atomics += atomic;
    }
    const double dearer = taken - by_atomics;
    if (dearer < kMuch * program.microseconds() || dearer < kStarts * e_.machine.start_us) return;
    say(fmt::format(
        "Adding up takes {:.1f} times as long in the {} program as atomics would, by estimate ({:.3g} us for {:.3g}): "
        "where bits may differ from run to run, take the variant 'atomic'.",
        taken / by_atomics, program.name, taken, by_atomics));
  }

  void tape() {
    const double all = tape_bytes(e_.tape);
    double arrays = 0;
    for (const ExplainedProgram& program : e_.programs) arrays = std::max(arrays, program.work.bytes);
    if (all < kLarge || all < 2 * arrays) return;
    const auto row = std::find_if(e_.tape.begin(), e_.tape.end(),
                                  [&](const TapeRow& r) { return r.how == "saved" && r.bytes.value_or(0) >= all / 2; });
    if (row == e_.tape.end()) return;
    const char* const cure =
        row->decision == "tape (reader's index)"
            ? "Written to an array of its own that nothing overwrites, it would be read there."
            : "Where that is too much, bound it (max_tape_bytes), or run parts of the problem one after the other.";
    say(fmt::format("Most of the tape is '{}' ({}): {} = {} bytes. {}", shortened(row->value, 48), row->where.str(),
                    human_bytes(*row->bytes), row->formula, cure));
  }

  void versioned() {
    for (const Remark& r : e_.remarks)
      if (r.text.find("`versioned`") != std::string::npos)
        return say(
            fmt::format("Where integer inputs stay the same from call to call, pass them as `versioned` ({}): {}.",
                        r.where.str(), r.text));
  }

  void assumed() {
    for (const ExplainedProgram& program : e_.programs)
      for (const SumDecision& d : program.decisions.sums)
        if (d.basis.find("(assumed)") != std::string::npos)
          return say(fmt::format("Plans are made for {}: state the sizes that are expected (--size, expected_sizes).",
                                 d.basis));
  }

  const Explanation& e_;
  std::vector<std::string> list_;
};

}  // namespace

std::vector<std::string> advice(const Explanation& e) { return Advisor(e).all(); }

}  // namespace loopgrad::cli

// An explanation as JSON.
#include "tools/cli/explanation.h"

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); }

Json json_of_sums(const Report& decisions) {
  Json sums = Json::array();
  for (const SumDecision& d : decisions.sums) {
    Json candidates = Json::array();
    for (const SumCandidate& c : d.candidates)
      candidates.push_back({{"plan", c.plan},
                            {"possible", c.possible},
                            {"microseconds", c.microseconds},
                            {"bytes", c.bytes},
                            {"operations", c.operations},
                            {"parallel", c.parallel},
                            {"note", c.note},
                            {"level", c.level}});
    sums.push_back({{"sum", d.sum},
                    {"where", cli::json_of(d.where)},
                    {"plan", d.plan},
                    {"reason", d.reason},
                    {"basis", d.basis},
                    {"candidates", candidates},
                    {"level", d.level}});
  }
  return sums;
}

Json json_of_parts(const ProgramParts& parts) {
  Json list = Json::array();
  for (const PartWork& p : parts.parts)
    list.push_back({{"loops", p.loops},
                    {"where", cli::json_of(p.where)},
                    {"parallel", p.is_shared},
                    {"product", p.is_product},
                    {"runs", p.runs},
                    {"flops", p.flops},
                    {"bytes", p.bytes},
                    {"iterations_at_once", p.parallel},
                    {"microseconds", p.microseconds}});
  return list;
}

Json json_of_ordered(const ProgramParts& parts) {
  Json list = Json::array();
  for (const OrderedLoop& l : parts.ordered)
    list.push_back({{"loop", l.loop},
                    {"where", cli::json_of(l.where)},
                    {"trips", l.trips},
                    {"microseconds", l.microseconds},
                    {"has_parallel", l.has_shared},
                    {"in_block", l.in_block}});
  return list;
}

Json json_of(const ExplainedProgram& program) {
  Json contractions = Json::array(), loops = Json::array(), kernels = Json::array(), runs = Json::array(),
       storage = Json::array();
  const Report& decisions = program.decisions;
  for (const ContractionDecision& d : decisions.contractions)
    contractions.push_back(
        {{"sum", d.sum}, {"where", cli::json_of(d.where)}, {"handed_over", d.handed_over}, {"reason", d.reason}});
  for (const LoopDecision& d : decisions.loops)
    loops.push_back(
        {{"loop", d.loop}, {"where", cli::json_of(d.where)}, {"parallel", d.parallel}, {"reason", d.reason}});
  for (const StorageDecision& d : decisions.storage)
    storage.push_back({{"array", d.array},
                       {"where", cli::json_of(d.where)},
                       {"decision", d.decision},
                       {"place", d.place},
                       {"reason", d.reason}});
  for (const KernelDecision& d : decisions.kernels)
    kernels.push_back({{"loops", d.loops}, {"where", cli::json_of(d.where)}, {"shape", d.shape}, {"reason", d.reason}});
  for (const RunDecision& d : decisions.runs)
    runs.push_back(
        {{"what", d.what}, {"where", cli::json_of(d.where)}, {"decision", d.decision}, {"reason", d.reason}});
  return {{"name", program.name},
          {"operations", program.work.flops},
          {"array_bytes", program.work.bytes},
          {"tape_bytes", program.work.tape_bytes},
          {"exact", program.work.exact},
          {"sums", json_of_sums(decisions)},
          {"contractions", contractions},
          {"loops", loops},
          {"storage", storage},
          {"kernels", kernels},
          {"runs", runs},
          {"microseconds", program.microseconds()},
          {"work_bytes", program.work_bytes},
          {"atomics", program.atomics},
          {"parallel_loops", program.parallel_loops},
          {"parts", json_of_parts(program.parts)},
          {"in_order", json_of_ordered(program.parts)}};
}

Json json_of(const TapeRow& row) {
  return {{"value", row.value},
          {"where", cli::json_of(row.where)},
          {"lines", row.lines},
          {"decision", row.decision},
          {"storage", row.storage},
          {"elements", row.elements},
          {"bytes", json_of(row.bytes)},
          {"reason", row.reason},
          {"how", row.how},
          {"formula", row.formula},
          {"written_bytes", json_of(row.written)},
          {"read_bytes", json_of(row.read)},
          {"alternative", row.alternative}};
}

}  // namespace

Json json_of(const SourceLocation& where) { return where.known() ? Json(where.str()) : Json(nullptr); }

Json json_of(const Explanation& e) {
  Json tape = Json::array(), programs = Json::array(), remarks = Json::array();
  for (const TapeRow& row : e.tape) tape.push_back(json_of(row));
  for (const ExplainedProgram& program : e.programs) programs.push_back(json_of(program));
  for (const Remark& r : e.remarks) remarks.push_back({{"text", r.text}, {"where", json_of(r.where)}});
  return {{"program", e.program},
          {"variant", name_of(e.variant)},
          {"sizes", e.sizes},
          {"tape", tape},
          {"programs", programs},
          {"remarks", remarks},
          {"target", name_of(e.target)},
          {"machine",
           {{"name", name_of_machine(e)},
            {"threads", e.machine.threads},
            {"flops_per_second", e.machine.threads / e.machine.ns_per_operation * 1e9},
            {"bytes_per_second", e.machine.threads / e.machine.ns_per_byte * 1e9}}},
          {"tape_bytes", tape_bytes(e.tape)},
          {"memory",
           {{"arrays", e.memory.arrays},
            {"tapes", e.memory.tapes},
            {"work", e.memory.work},
            {"by_data", e.memory.by_data}}},
          {"advice", advice(e)}};
}

}  // namespace loopgrad::cli

// The sums of one nest while they are planned and rewritten: which belong together, and where they are by now.
#pragma once

#include "dsl/ir/rewriter.h"
#include "transforms/loops/fission.h"
#include "transforms/storage/invariant_locals.h"
#include "transforms/sums/exact_sums.h"
#include "transforms/sums/gather_sums.h"
#include "transforms/sums/restructure_nest.h"

#include <map>
#include <optional>

namespace loopgrad::transforms {

/// Sums of a nest that may meet in elements of one target, with their plan in the making.
struct SumGroup {
  ir::Array target;
  std::vector<ir::Stmt> sums;     // in the current version of the nest
  std::vector<ir::Stmt> written;  // as in the program
  bool shared = true;             // iterations share it; otherwise it is only to be improved
  int family = 0;                 // groups of one family may share elements
  Separators separators = {};
  ir::Expr blocks = {};              // that would have partial results of them
  std::vector<ir::Array> kept = {};  // locals that a nest of its own would keep for all iterations
  SumPlan plan = {};
  ExactForm exact = {};  // of Strategy::Exact

  /// The plan gives it a nest of its own.
  bool is_apart() const;
  /// It leaves the sums as they are written, in the nest, which does them with partial results, or in order.
  bool stays() const;
};

/// A nest within its program, with its model: what every step looks at.
struct NestVersion {
  ir::Program program;
  ir::Stmt nest;
  poly::Model model;
};

/// Arrays that have what locals of a nest had in each iteration.
struct KeptLocals {
  std::vector<ir::Array> arrays;  // to be allocated around all parts
  std::vector<ir::Stmt> before;   // nests that set some of them, before all parts, with the names of the nest
  std::map<ir::Array, ir::ElementPlace> places;  // of the locals of these: where an element begins, by the iterators
};

/// The groups of a nest, and the versions that it goes through.
class SumNest {
 public:
  /// All references must outlive the object. `by_partials`: see restructure_nest.cpp.
  SumNest(const ir::Program& program, const ir::Stmt& nest, const NestRequest& request, PassContext& context,
          bool by_partials);

  const ir::Program& original;
  const ir::Stmt& original_nest;
  const NestRequest& request;
  PassContext& context;
  const bool by_partials;  // sums into elements that data choose get partial results, for targets of few elements
  NestVersion now;
  std::vector<SumGroup> groups;

  const Machine& machine() const { return context.options.machine; }
  /// Which leaves have to stay before which others, in the current version.
  const LeafOrder& leaf_order();
  /// `nest`, made of the original one, in its place.
  NestVersion version_of(const ir::Stmt& nest) const;
  /// What the group's sums do, alone, in the current version.
  ir::Stmt alone(const SumGroup& group) const { return slice(now.nest, set_of(group.sums)); }

  /// Other leaves in place of some of the nest's.
  void replace_leaves(const std::map<const ir::StmtNode*, ir::Stmt>& changed);
  /// Another version, of which `groups` already are.
  void set(NestVersion version);
  /// The group reads copies of what the nest changes later (keep_operands.h). False where there is nothing to copy.
  bool keep_operands_of(SumGroup& group);
  /// Sums take in what locals of the nest hold, so that they can leave it; those that stay get their locals back.
  void forward_locals_into_sums();
  void give_back_locals();
  /// What sums that are sorted add is kept where computing it again would take more that has to be kept.
  void keep_terms_of_segments();
  /// Gives the nest arrays in place of the locals that cross between its parts, and follows the leaves of the parts and
  /// groups. Nullopt where an extent is not known before the nest.
  std::optional<KeptLocals> expand(std::vector<NestPart>& parts, std::vector<ir::Array>& crossing);
  /// The leaves of a part of the nest, with the groups following them; what others have kept it reads where it is kept.
  ir::Stmt piece_of(const StmtSet& leaves, const KeptLocals& kept);
  /// The locals of `code`, made of `piece`, that this had not are no arrays of the user's.
  void note_new_arrays(const ir::Stmt& piece, const ir::Stmt& code);
  /// Whether `expand` could give the local an array, in the current version.
  bool can_expand(const ir::Array& local);

 private:
  ir::Stmt replaced(const std::map<const ir::StmtNode*, ir::Stmt>& changed) const;
  void keep_before(const InvariantNest& nest, KeptLocals& kept) const;
  void follow(const std::map<const ir::StmtNode*, ir::Stmt>& changed);

  std::optional<LeafOrder> order_;             // of `now`
  std::map<ir::Array, bool> can_be_expanded_;  // of `now`, as far as somebody has asked
  std::map<const ir::StmtNode*, ir::Stmt> before_forwarding_;
};

/// Why the group cannot have a nest of its own, or else the locals that have to be kept for it.
std::optional<std::string> obstacle_to_splitting(SumNest& nest, const SumGroup& group, std::vector<ir::Array>& kept);

/// Whether data choose the elements of some of the group's sums.
bool has_targets_from_data(const SumGroup& group);
/// So few elements that each thread of a GPU's block can have a copy of all of them (lane_copies.h).
bool has_few_targets(const SumNest& nest, const SumGroup& group);
inline constexpr double few_targets = 256;  // with 32 threads, 48 KiB

}  // namespace loopgrad::transforms

#include "transforms/storage/storage_plan.h"

namespace loopgrad::transforms {

void note_storage(PassContext& context, const ir::Array& array, Storage storage, std::string place, std::string reason,
                  const SourceLocation& where) {
  static const char* const names[] = {"alias", "folded", "windowed"};
  context.report.storage.push_back(
      {array->name, where, names[static_cast<int>(storage)], std::move(place), std::move(reason)});
}

}  // namespace loopgrad::transforms

#include "tools/cli/commands.h"
#include "tools/cli/explanation.h"

namespace loopgrad::cli {

int explain_program(const Options& options) {
  const Explanation e = explain(options, options.variant);
  if (!options.remarks.empty()) {
    const std::string remarks = remarks_yaml(e);
    if (options.remarks == "-") {
      report(options, remarks, json_of(e));
      return 0;
    }
    write_file(options.remarks, remarks);
  }
  std::string text = letter(e);
  if (options.details.empty()) text += "\nMore: --details (or --details=tape, sums, loops, remarks), `report`\n";
  else text += "\n" + details(e, options.details);
  report(options, text, json_of(e));
  return 0;
}

}  // namespace loopgrad::cli

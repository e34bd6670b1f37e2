// docs/design/ir.md says what each node means: none may be missing there, and none that is gone may stay.
#include "dsl/ir/stmt.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

namespace loopgrad::ir {
namespace {

std::set<std::string> headings(const std::string& path) {
  std::ifstream page(path);
  std::set<std::string> found;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("### ", 0) != 0) continue;
    EXPECT_TRUE(found.insert(line.substr(4)).second) << line << " stands there twice";
  }
  return found;
}

TEST(IrPage, HasAHeadingForEachNode) {
  const std::set<std::string> nodes = {
#define LOOPGRAD_EXPR(Name) #Name,
#define LOOPGRAD_STMT(Name) #Name,
#include "dsl/ir/nodes.def"
  };
  ASSERT_GE(nodes.size(), 19u);
  EXPECT_EQ(headings(LOOPGRAD_DOCS "/design/ir.md"), nodes);
}

}  // namespace
}  // namespace loopgrad::ir
